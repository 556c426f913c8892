// The single allocations in a picture of a long run.
#include <algorithm>
#include <unordered_map>

#include "session/long_view/long_device.h"

namespace gpumemprof {
namespace {

// A longer range is drawn from the index.
constexpr std::size_t kMostSinglesStretches = 6;

struct LongSingle {
  view::Singles::Row row;
  double length = 0;  // within the range, on its axis
};

std::uint64_t handle_in(const Store& store, std::uint32_t stream) {
  return stream < store.stream_count() ? store.stream_handle(stream) : 0;
}

// Those that can be seen, and of these the ones that take the most room.
std::vector<view::Singles::Row> visible_ones(std::vector<LongSingle> all,
                                             const SinglesQuery& query) {
  std::erase_if(all, [&](const LongSingle& one) {
    return one.row.size_bytes < query.least_bytes ||
           one.length < static_cast<double>(query.least_length);
  });
  const auto area = [](const LongSingle& one) {
    return static_cast<double>(one.row.size_bytes) * (one.length + 1);
  };
  if (all.size() > query.most) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(query.most), all.end(),
                     [&](const LongSingle& a, const LongSingle& b) { return area(a) > area(b); });
    all.resize(query.most);
  }
  std::ranges::sort(all, {},
                    [](const LongSingle& one) { return std::pair(one.row.birth, one.row.row); });
  std::vector<view::Singles::Row> rows;
  rows.reserve(all.size());
  for (const LongSingle& one : all) rows.push_back(one.row);
  return rows;
}

// Joins what stretches that follow each other know about the same allocations.
class StretchSingles {
 public:
  StretchSingles(GroupBy by, const SinglesQuery& query) : by_(by), query_(query) {}

  void add(const Stretch& stretch) {
    const DeviceView& view = stretch.view();
    const DeviceRecord& record = view.record();
    SinglesQuery local;
    const Position from = std::max(query_.from, stretch.first_event());
    const Position to = std::min(query_.to, stretch.end_event() + 1);
    if (from >= to) return;
    local.from = stretch.local(from);
    local.to = stretch.local(to);
    local.least_bytes = query_.least_bytes;
    local.most = record.allocations.size();
    const SinglesPage page = find_singles(record, view.live(), view.timeline().times(), local);
    matches_ += page.matches;
    if (!all_.empty() || is_joined_) matches_ -= live_at(view, local.from);
    is_joined_ = true;
    const Grouping& grouping = view.grouped(by_).grouping;
    for (const AllocationId row : page.rows) add(stretch, local, row.index, grouping);
  }

  [[nodiscard]] std::uint64_t matches() const { return matches_; }
  std::vector<view::Singles::Row> rows() && {
    if (query_.axis == Axis::event) {
      for (LongSingle& one : all_) {
        const Position end = std::min(query_.to, one.row.death.value_or(query_.to));
        one.length = static_cast<double>(end - std::max(query_.from, one.row.birth));
      }
    }
    return visible_ones(std::move(all_), query_);
  }

 private:
  static std::uint64_t live_at(const DeviceView& view, Position position) {
    const AllocationColumns& rows = view.record().allocations;
    std::uint64_t count = 0;
    for (const AllocationId row : view.live().active_at(position))
      count += rows.is_allocated_at(row.index, moment_of(position)) ? 1U : 0U;
    return count;
  }

  void add(const Stretch& stretch, const SinglesQuery& local, std::size_t row,
           const Grouping& grouping) {
    const view::AllocationSource source = stretch.source();
    const AllocationColumns& rows = source.record.allocations;
    const std::uint32_t freed = rows.free_requested_event[row];
    const std::uint64_t shown = source.shown_row(row);
    const auto [known, is_new] = place_.try_emplace(shown, all_.size());
    if (is_new) {
      LongSingle& one = all_.emplace_back();
      one.row.row = shown;
      one.row.size_bytes = rows.size_bytes[row];
      one.row.requested_bytes = rows.requested_bytes[row];
      one.row.birth = source.shown_birth(row);
      one.row.group = grouping.group_of_allocation[row];
      one.row.stream_handle = handle_in(source.store, rows.stream[row]);
    }
    LongSingle& one = all_[known->second];
    one.row.death = source.shown_death(freed);
    if (query_.axis == Axis::event || !source.times.is_known()) return;
    // The last moment of a stretch is the first of the next one.
    const Position birth = std::max(local.from, birth_position(rows.alloc_event[row]));
    const Position death = std::min(freed == kNoEvent ? local.to : position_after(freed),
                                    std::min(local.to, stretch.local(stretch.end_event())));
    if (birth >= death) return;
    const auto at = [&](Position position) {
      return position == 0 ? source.times.first_ns() : source.times.of_event(position - 1);
    };
    one.length += static_cast<double>(at(death) - at(birth));
  }

  GroupBy by_;
  const SinglesQuery& query_;
  bool is_joined_ = false;
  std::uint64_t matches_ = 0;
  std::vector<LongSingle> all_;
  std::unordered_map<std::uint64_t, std::size_t> place_;
};

}  // namespace

Result<const LongLived*> LongDevice::long_lived() const {
  const std::scoped_lock lock(long_lived_mutex_);
  if (long_lived_ == nullptr) {
    Result<std::unique_ptr<LongLived>> read =
        LongLived::read(*run_.index, overview_.device, *run_.reading);
    if (!read) return read.error();
    long_lived_ = std::move(read).value();
  }
  return static_cast<const LongLived*>(long_lived_.get());
}

Result<view::Singles> LongDevice::singles(GroupBy by, const SinglesQuery& given) const {
  SinglesQuery query = given;
  query.to = std::min(query.to, last_position() + 1);
  if (query.from >= query.to) return view::Singles{{}, 0, 0};
  const std::size_t first = interval_of(query.from);
  const std::size_t last = interval_of(query.to - 1);
  const std::uint64_t events = checkpoints()[last + 1] - checkpoints()[first];
  if (last - first >= kMostSinglesStretches || events > kMostListedEvents)
    return outlined_singles(by, query);
  StretchSingles found(by, query);
  for (std::size_t interval = first; interval <= last; ++interval) {
    const Result<StretchPtr> stretch = open_stretch(interval, interval);
    if (!stretch) return stretch.error();
    found.add(*stretch.value());
  }
  view::Singles singles;
  singles.matches = found.matches();
  singles.rows = std::move(found).rows();
  return singles;
}

Result<view::Singles> LongDevice::outlined_singles(GroupBy by, const SinglesQuery& query) const {
  const Result<const LongLived*> known = long_lived();
  if (!known) return known.error();
  const LongLived& lived = *known.value();
  const Grouping& grouping = lived.grouped(store(), *this, by);
  const bool is_timed = query.axis == Axis::time && scale().has_times();
  const auto at = [&](Position position) {
    return static_cast<double>(is_timed ? timeline_->about_when(position == 0 ? 0 : position - 1)
                                        : std::int64_t{position});
  };
  std::vector<LongSingle> all;
  for (std::size_t row = 0; row < lived.size(); ++row) {
    const std::optional<Position> seen = lived.last_seen(row);
    const Position birth = std::max(query.from, lived.birth(row));
    const Position end = seen ? std::min(query.to, *seen + 1) : query.to;
    if (birth >= end) continue;
    LongSingle& one = all.emplace_back();
    one.row.row = lived.shown_row(row);
    one.row.size_bytes = lived.size_bytes(row);
    one.row.requested_bytes = lived.requested_bytes(row);
    one.row.birth = lived.birth(row);
    if (seen) one.row.death = *seen + 1;
    one.row.group = grouping.group_of_allocation[row];
    one.row.stream_handle = handle_in(store(), lived.stream(row));
    one.length = at(end - 1) - at(birth);
  }
  view::Singles singles;
  singles.spacing = lived.spacing();
  singles.rows = visible_ones(std::move(all), query);
  return singles;
}

}  // namespace gpumemprof
