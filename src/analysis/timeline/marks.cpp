#include "analysis/timeline/marks.h"

#include <algorithm>
#include <cstdlib>

#include "analysis/whatif/recorded_device.h"
#include "base/flat_map.h"
#include "sim/limit.h"

namespace gpumemprof {
namespace {

// Starts and ends of annotations, paired by name, the innermost first.
class SpanFinder {
 public:
  SpanFinder(const Store& store, const DeviceRecord& record, const EventTimes& times)
      : store_(store), times_(times), last_(static_cast<Position>(record.events.size())) {
    for (const Annotation& annotation : store.annotations()) {
      if (annotation.device != record.device || annotation.time_ns == kUnknownTime) continue;
      if (annotation.stage == Annotation::Stage::start) {
        open(annotation);
      } else {
        close(annotation);
      }
    }
  }

  std::vector<MarkedSpan> spans;

 private:
  void open(const Annotation& annotation) {
    const auto index = static_cast<std::uint32_t>(spans.size());
    std::uint32_t& innermost = innermost_.find_or_insert(annotation.name.index, kNoEvent);
    MarkedSpan span;
    span.name = store_.text(annotation.name);
    span.from = times_.position_before(annotation.time_ns);
    span.to = last_;
    span.from_ns = annotation.time_ns;
    span.to_ns = std::max(times_.last_ns(), annotation.time_ns);
    span.depth = open_count_++;
    spans.push_back(span);
    outer_.push_back(innermost);
    innermost = index;
  }

  void close(const Annotation& annotation) {
    std::uint32_t* innermost = innermost_.find(annotation.name.index);
    if (innermost == nullptr || *innermost == kNoEvent) return;
    MarkedSpan& span = spans[*innermost];
    span.to = std::max(span.from, times_.position_before(annotation.time_ns));
    span.to_ns = std::max(span.from_ns, annotation.time_ns);
    *innermost = outer_[*innermost];
    --open_count_;
  }

  const Store& store_;
  const EventTimes& times_;
  Position last_;
  FlatMap<std::uint32_t> innermost_;  // name → the span opened last, and not closed yet
  std::vector<std::uint32_t> outer_;  // of each span: the open one of the same name before it
  std::uint32_t open_count_ = 0;
};

// Steps in the first lane and the phases within them in the second, from the spans of phases.
class PhaseMarker {
 public:
  PhaseMarker(const DeviceRecord& record, const EventTimes& times)
      : times_(times), events_(static_cast<std::uint32_t>(record.events.size())) {}

  std::vector<MarkedSpan> run(const std::vector<PhaseSpan>& phases) {
    std::vector<MarkedSpan> spans;
    for (std::size_t first = 0; first < phases.size();) {
      std::size_t past = first;
      while (past < phases.size() && phases[past].step == phases[first].step) ++past;
      const std::uint32_t end = past < phases.size() ? phases[past].first_event : events_;
      if (phases[first].step > 0) {
        spans.push_back(span("step " + std::to_string(phases[first].step), MarkedSpan::Kind::step,
                             phases[first].first_event, end));
      }
      for (std::size_t index = first; index < past; ++index) {
        const std::uint32_t phase_end =
            index + 1 < phases.size() ? phases[index + 1].first_event : events_;
        if (phases[index].phase == Phase::other) continue;
        std::string name(phase_name(phases[index].phase));
        std::replace(name.begin(), name.end(), '_', ' ');
        spans.push_back(
            span(std::move(name), MarkedSpan::Kind::phase, phases[index].first_event, phase_end));
      }
      first = past;
    }
    return spans;
  }

 private:
  [[nodiscard]] MarkedSpan span(std::string name, MarkedSpan::Kind kind, std::uint32_t first_event,
                                std::uint32_t end_event) const {
    MarkedSpan span;
    span.name = std::move(name);
    span.kind = kind;
    span.from = first_event;
    span.to = end_event;
    span.depth = kind == MarkedSpan::Kind::step ? 0 : 1;
    if (times_.is_known()) {
      span.from_ns = times_.of_event(std::min(first_event, events_ - 1));
      span.to_ns = times_.of_event(std::min(end_event, events_ - 1));
    }
    return span;
  }

  const EventTimes& times_;
  std::uint32_t events_;
};

void keep_longest(std::vector<MarkedSpan>& spans, std::size_t most, std::uint64_t& left_out) {
  if (spans.size() <= most) return;
  left_out = spans.size() - most;
  const auto end = spans.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(spans.begin(), end, spans.end(), [](const MarkedSpan& a, const MarkedSpan& b) {
    return a.to - a.from > b.to - b.from;
  });
  spans.erase(end, spans.end());
  std::sort(spans.begin(), spans.end(), [](const MarkedSpan& a, const MarkedSpan& b) {
    return a.from != b.from ? a.from < b.from : a.depth < b.depth;
  });
}

void find_ooms(const DeviceRecord& record, const EventTimes& times, std::size_t most,
               Marks& marks) {
  for (std::uint32_t event = 0; event < record.events.size(); ++event) {
    if (record.events.action[event] != Action::oom) continue;
    if (marks.ooms.size() == most) {
      ++marks.ooms_left_out;
      continue;
    }
    marks.ooms.push_back({position_after(event),
                          times.is_known() ? times.of_event(event) : kUnknownTime,
                          record.events.size_bytes[event]});
  }
}

std::string fact(const Store& store, const std::string& key) {
  for (const auto& [name, value] : store.origin().facts) {
    if (name == key) return value;
  }
  return "";
}

void find_bounds(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                 Marks& marks) {
  const std::string device = "device " + std::to_string(record.device);
  if (const std::string total = fact(store, device + " total_bytes"); !total.empty())
    marks.card_bytes = std::strtoull(total.c_str(), nullptr, 10);
  for (const DeviceSample& sample : store.samples()) {
    if (sample.device == record.device && sample.total_bytes != kUnknownBytes && !marks.card_bytes)
      marks.card_bytes = sample.total_bytes;
  }
  const std::string fraction = fact(store, device + " memory_fraction");
  if (marks.card_bytes && !fraction.empty()) {
    const double share = std::strtod(fraction.c_str(), nullptr);
    if (share > 0 && share < 1)
      marks.limit_bytes =
          static_cast<std::uint64_t>(share * static_cast<double>(*marks.card_bytes));
    return;
  }
  if (replay.counters.ooms == 0 || record.device == kHostDevice) return;
  const RecordedDevice recorded(store, record, replay);
  const auto inferred = sim::infer_limit(recorded.run(), store.settings());
  if (!inferred) return;
  const std::uint64_t bytes = std::min(inferred->limit.allowed_bytes, inferred->limit.device_bytes);
  if (bytes == sim::kNoLimit) return;
  marks.limit_bytes = bytes;
  marks.is_limit_inferred = true;
}

}  // namespace

Marks find_marks(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                 const std::vector<PhaseSpan>& phases, const EventTimes& times,
                 const MarksOptions& options) {
  Marks marks;
  if (!record.events.empty()) marks.spans = PhaseMarker(record, times).run(phases);
  std::uint32_t lanes = 0;
  for (const MarkedSpan& span : marks.spans) lanes = std::max(lanes, span.depth + 1);
  if (times.is_known()) {
    for (MarkedSpan& span : SpanFinder(store, record, times).spans) {
      span.depth += lanes;
      marks.spans.push_back(std::move(span));
    }
  }
  keep_longest(marks.spans, options.most_spans, marks.spans_left_out);
  find_ooms(record, times, options.most_ooms, marks);
  find_bounds(store, record, replay, marks);
  return marks;
}

}  // namespace gpumemprof
