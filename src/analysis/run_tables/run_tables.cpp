#include "analysis/run_tables/run_tables.h"

#include <algorithm>

namespace gpumemprof {
namespace {

Cell time_cell(std::int64_t time_ns) { return time_ns == kUnknownTime ? Cell() : Cell(time_ns); }

Cell bytes_cell(std::uint64_t bytes) { return Cell(static_cast<std::int64_t>(bytes)); }

struct StepSum {
  std::uint32_t step = 0;
  std::uint32_t first_event = 0;
  std::uint32_t last_event = 0;
  std::int64_t first_time_ns = kUnknownTime;
  std::int64_t last_time_ns = kUnknownTime;
  std::uint64_t peak_bytes = 0;
  std::uint64_t floor_bytes = kUnknownBytes;
  std::uint64_t end_bytes = 0;
};

}  // namespace

class RunTablesSum::DeviceSum {
 public:
  explicit DeviceSum(std::string name) : name_(std::move(name)) {}

  void add(const WalkedPart& part, const std::vector<PhaseSpan>& spans, std::uint32_t first_number,
           const DeviceReplay& replay) {
    part_ = &part;
    spans_ = &spans;
    first_number_ = first_number;
    peak_event_ = replay.peak_event;
    span_ = 0;
    has_labels_ = part.record.labels.has_recorded;
    walk_.pass(part, *this);
    // Without a history, the end is all there is.
    if (!replay.has_history) note_peak(walk_.live());
  }

  // For the walk:
  void started(const LiveMemory& live) {
    if (peak_event_ == kNoEvent) note_peak(live);
    note_most(live);
  }
  void changed(std::uint32_t /*event*/, std::uint32_t /*row*/, bool is_birth,
               const LiveMemory& live) {
    if (is_birth) note_most(live);
  }
  void reserved(std::uint32_t /*event*/, const LiveMemory& /*live*/) {}
  void passed(std::uint32_t event, const LiveMemory& live) {
    const std::uint32_t number =
        first_number_ + (event - static_cast<std::uint32_t>(part_->first_event));
    StepSum& sum = step_at(event, number);
    const std::int64_t time_ns = part_->record.events.time_ns[event];
    if (sum.first_time_ns == kUnknownTime) sum.first_time_ns = time_ns;
    if (time_ns != kUnknownTime) sum.last_time_ns = time_ns;
    sum.last_event = number;
    sum.peak_bytes = std::max(sum.peak_bytes, live.allocated_bytes);
    sum.floor_bytes = std::min(sum.floor_bytes, live.allocated_bytes);
    sum.end_bytes = live.allocated_bytes;
    if (number == peak_event_) note_peak(live);
  }

  void add_steps(SmallTable& table) const {
    for (const StepSum& sum : steps_)
      table.rows.push_back({name_, std::int64_t{sum.step}, std::int64_t{sum.first_event},
                            std::int64_t{sum.last_event}, time_cell(sum.first_time_ns),
                            time_cell(sum.last_time_ns), bytes_cell(sum.peak_bytes),
                            bytes_cell(sum.floor_bytes), bytes_cell(sum.end_bytes)});
  }

  void add_sources(SmallTable& table) const {
    for (const MemorySourceInfo& info : kMemorySourceTable) {
      const auto place = static_cast<std::size_t>(info.source);
      if (!info.is_listed(most_.by_source[place])) continue;
      // As a report says it: at the peak, or of the most if nothing was live then.
      const std::uint64_t inferred = at_peak_.sources[info.source] > 0
                                         ? at_peak_.inferred_blocks[place]
                                         : inferred_at_most_[place];
      const bool is_measured = has_labels_ && inferred == 0;
      const Provenance provenance = is_measured ? Provenance::measured : Provenance::inferred;
      table.rows.push_back(
          {name_, std::string(info.name), bytes_cell(at_peak_.sources[info.source]),
           bytes_cell(most_.by_source[place]), std::string(provenance_name(provenance))});
    }
    table.rows.push_back({name_, std::string("rounding"), bytes_cell(at_peak_.sources.rounding),
                          bytes_cell(most_.rounding),
                          std::string(provenance_name(Provenance::measured))});
  }

 private:
  void note_peak(const LiveMemory& live) { at_peak_ = live; }

  void note_most(const LiveMemory& live) {
    for (std::size_t source = 0; source < kMemorySourceCount; ++source) {
      if (live.sources.by_source[source] <= most_.by_source[source]) continue;
      most_.by_source[source] = live.sources.by_source[source];
      inferred_at_most_[source] = live.inferred_blocks[source];
    }
    most_.rounding = std::max(most_.rounding, live.sources.rounding);
  }

  StepSum& step_at(std::uint32_t event, std::uint32_t number) {
    while (span_ + 1 < spans_->size() && (*spans_)[span_ + 1].first_event <= event) ++span_;
    const bool is_inside = span_ < spans_->size() && (*spans_)[span_].first_event <= event;
    const std::uint32_t step = is_inside ? (*spans_)[span_].step : 0;
    if (steps_.empty() || steps_.back().step != step) {
      steps_.emplace_back();
      steps_.back().step = step;
      steps_.back().first_event = number;
    }
    return steps_.back();
  }

  std::string name_;
  MemoryWalk walk_;
  const WalkedPart* part_ = nullptr;
  const std::vector<PhaseSpan>* spans_ = nullptr;
  std::uint32_t first_number_ = 0;
  std::uint32_t peak_event_ = kNoEvent;
  std::size_t span_ = 0;
  bool has_labels_ = false;  // the recording names storages
  std::vector<StepSum> steps_;
  LiveMemory at_peak_;
  SourceBytes most_;
  std::array<std::uint64_t, kMemorySourceCount> inferred_at_most_{};
};

RunTablesSum::RunTablesSum() = default;
RunTablesSum::~RunTablesSum() = default;

void RunTablesSum::add(const WalkedPart& part, const std::vector<PhaseSpan>& spans,
                       std::uint32_t first_number, const DeviceReplay& replay,
                       const std::string& device) {
  std::unique_ptr<DeviceSum>& sum = devices_[part.record.device];
  if (sum == nullptr) sum = std::make_unique<DeviceSum>(device);
  sum->add(part, spans, first_number, replay);
}

SmallTable RunTablesSum::steps() const {
  SmallTable table{"steps",
                   {"device", "step", "first_event", "last_event", "first_time_ns", "last_time_ns",
                    "peak_bytes", "floor_bytes", "end_bytes"},
                   {}};
  for (const auto& [device, sum] : devices_) sum->add_steps(table);
  return table;
}

SmallTable RunTablesSum::sources() const {
  SmallTable table{"sources", {"device", "source", "bytes_at_peak", "bytes_max", "provenance"}, {}};
  for (const auto& [device, sum] : devices_) sum->add_sources(table);
  return table;
}

}  // namespace gpumemprof
