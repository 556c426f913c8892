#include "session/long_view/long_lived.h"

#include <algorithm>
#include <unordered_map>

#include "report/view/view_json.h"

namespace gpumemprof {
namespace {

// A picture is not more than so many pixels wide.
constexpr std::size_t kMostCheckpointsRead = 2048;
constexpr std::uint32_t kSeenOnce = 0xffffffffU;

}  // namespace

class LongLived::Reader {
 public:
  explicit Reader(LongLived& out) : out_(out) {}

  void add(const DeviceCheckpoint& state) {
    std::unordered_map<std::uint64_t, std::uint32_t> now;
    now.reserve(state.allocations.size());
    for (const OldAllocation& old : state.allocations) {
      if (old.is_pending) continue;
      const std::uint64_t shown = old.birth_event == kNoEvent ? view::kOlderRow + old.address
                                                              : birth_position(old.birth_event);
      std::uint32_t row = kSeenOnce;
      if (const auto before = seen_.find(shown); before != seen_.end()) {
        row = before->second == kSeenOnce ? keep(old, shown) : before->second;
        out_.last_seen_[row] = state.event;
      }
      now.emplace(shown, row);
    }
    seen_ = std::move(now);
  }

  // The last checkpoint is the end of the run.
  void finish() {
    for (const auto& [shown, row] : seen_) {
      if (row != kSeenOnce) out_.last_seen_[row].reset();
    }
    sort();
  }

 private:
  std::uint32_t keep(const OldAllocation& old, std::uint64_t shown) {
    const auto row = static_cast<std::uint32_t>(out_.birth_.size());
    out_.birth_.push_back(birth_position(old.birth_event));
    out_.shown_row_.push_back(shown);
    out_.last_seen_.emplace_back();
    kept_.push_back(old);
    return row;
  }

  // In order of birth; what is older than the run comes first.
  void sort() {
    std::vector<std::uint32_t> order(kept_.size());
    for (std::uint32_t row = 0; row < order.size(); ++row) order[row] = row;
    std::ranges::stable_sort(order, {}, [&](std::uint32_t row) { return out_.birth_[row]; });
    const auto sorted = [&](const auto& column) {
      std::decay_t<decltype(column)> result;
      for (const std::uint32_t row : order) result.push_back(column[row]);
      return result;
    };
    out_.birth_ = sorted(out_.birth_);
    out_.shown_row_ = sorted(out_.shown_row_);
    out_.last_seen_ = sorted(out_.last_seen_);
    for (const std::uint32_t row : order) write(kept_[row]);
  }

  void write(const OldAllocation& old) {
    DeviceRecord& record = out_.record_;
    AllocationColumns& rows = record.allocations;
    const auto event = static_cast<std::uint32_t>(rows.size());
    rows.address.push_back(old.address);
    rows.size_bytes.push_back(old.size_bytes);
    rows.requested_bytes.push_back(old.requested_bytes);
    rows.alloc_event.push_back(event);
    rows.free_requested_event.push_back(kNoEvent);
    rows.free_completed_event.push_back(kNoEvent);
    rows.stream.push_back(old.stream);
    rows.stack.push_back(old.stack);
    rows.segment.push_back(SegmentId());
    Event made;
    made.action = Action::alloc;
    made.address = old.address;
    made.size_bytes = old.size_bytes;
    made.stream = old.stream;
    made.stack = old.stack;
    made.compile_context = old.compile_context;
    made.user_metadata = old.user_metadata;
    made.pool = old.pool;
    made.forward_stack = old.forward_stack;
    made.module = old.module;
    record.events.push_back(made);
    record.labels.source.push_back(old.source);
    record.labels.flags.push_back(old.flags);
    record.labels.name.push_back(old.name);
  }

  LongLived& out_;
  std::vector<OldAllocation> kept_;
  // At the checkpoint before: the row of each, or kSeenOnce.
  std::unordered_map<std::uint64_t, std::uint32_t> seen_;
};

Result<std::unique_ptr<LongLived>> LongLived::read(const RunIndex& index, DeviceIndex device,
                                                   std::mutex& reading) {
  auto found = std::make_unique<LongLived>();
  found->record_.device = device;
  Reader reader(*found);
  const std::vector<std::uint32_t>& events = index.checkpoints(device);
  const std::size_t step = (events.size() + kMostCheckpointsRead - 1) / kMostCheckpointsRead;
  std::size_t before = 0;
  for (std::size_t number = 0; number < events.size();) {
    const Result<DeviceCheckpoint> state = [&] {
      const std::scoped_lock lock(reading);
      return index.checkpoint(device, number);
    }();
    if (!state) return state.error();
    reader.add(state.value());
    found->spacing_ = std::max(found->spacing_, events[number] - events[before]);
    before = number;
    // The last one is always read.
    const std::size_t last = events.size() - 1;
    number = number == last ? last + 1 : std::min(last, number + step);
  }
  reader.finish();
  return found;
}

const Grouping& LongLived::grouped(const Store& store, const RunGroups& groups, GroupBy by) const {
  const auto index = static_cast<std::size_t>(by);
  std::call_once(is_grouped_[index], [&] {
    grouped_[index] = make_grouping_as(store, record_, by, groups.groups(by));
  });
  return grouped_[index];
}

}  // namespace gpumemprof
