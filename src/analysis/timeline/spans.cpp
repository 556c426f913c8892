#include "analysis/timeline/spans.h"

#include <algorithm>

#include "base/flat_map.h"

namespace gpumemprof {

// Steps in the first lane and the phases within them in the second.
class Spans::PhaseReader {
 public:
  PhaseReader(Spans& spans, const std::vector<PhaseSpan>& phases, const SpanGround& ground)
      : spans_(spans), phases_(phases), ground_(ground), events_(ground.events()) {}

  void run() {
    usual_forward_ = median_forward();
    // Without a backward or an optimizer there are no steps: only forwards, in the first lane.
    is_training_ = std::any_of(phases_.begin(), phases_.end(), [](const PhaseSpan& span) {
      return span.phase == Phase::backward || span.phase == Phase::optimizer_step;
    });
    for (std::size_t first = 0; first < phases_.size();) {
      std::size_t past = first;
      while (past < phases_.size() && phases_[past].step == phases_[first].step) ++past;
      add_step(first, past);
      first = past;
    }
  }

 private:
  [[nodiscard]] std::uint32_t end_of(std::size_t index) const {
    return index + 1 < phases_.size() ? phases_[index + 1].first_event : events_;
  }
  [[nodiscard]] std::uint32_t length_of(std::size_t index) const {
    return end_of(index) - phases_[index].first_event;
  }

  // Of the first forward of each step, in events.
  [[nodiscard]] std::uint32_t median_forward() const {
    std::vector<std::uint32_t> lengths;
    std::uint32_t step = 0;
    for (std::size_t index = 0; index < phases_.size(); ++index) {
      if (phases_[index].phase != Phase::forward || phases_[index].step == step) continue;
      step = phases_[index].step;
      lengths.push_back(length_of(index));
    }
    if (lengths.empty()) return 0;
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    return *middle;
  }

  void add_step(std::size_t first, std::size_t past) {
    const bool is_step = is_training_ && phases_[first].step > 0;
    const std::uint32_t begin = is_step ? training_begin(first, past) : phases_[first].first_event;
    const std::size_t closing = is_step ? closing_evaluation(first, past) : past;
    const std::uint32_t end = closing < past ? phases_[closing].first_event : end_of(past - 1);
    if (is_step) add_evaluation(first, past, begin);
    if (is_step && begin < end) add(0, SpanKind::step, phases_[first].step, begin, end);
    for (std::size_t index = first; index < closing; ++index) {
      const std::uint32_t from = std::max(begin, phases_[index].first_event);
      if (phases_[index].phase == Phase::other || from >= end_of(index)) continue;
      add(is_training_ ? 1 : 0, SpanKind::phase, static_cast<std::uint32_t>(phases_[index].phase),
          from, end_of(index));
    }
    if (closing == past || begin >= end) return;
    while (phases_[past - 1].phase != Phase::evaluation) --past;
    add(0, SpanKind::evaluation, 0, end, end_of(past - 1));
  }

  // The first evaluation after all training of a step; `past` if there is none.
  [[nodiscard]] std::size_t closing_evaluation(std::size_t first, std::size_t past) const {
    std::size_t index = past;
    while (index > first && (phases_[index - 1].phase == Phase::other ||
                             phases_[index - 1].phase == Phase::evaluation))
      --index;
    while (index < past && phases_[index].phase != Phase::evaluation) ++index;
    return index;
  }

  // A step is what ends in a backward or in the optimizer. Whatever its first forward does before
  // that without keeping anything for a backward is an evaluation between two steps.
  [[nodiscard]] std::uint32_t training_begin(std::size_t first, std::size_t past) const {
    std::uint32_t begin = phases_[first].first_event;
    std::size_t index = first;
    for (; index < past; ++index) {
      if (phases_[index].phase == Phase::other) continue;
      if (phases_[index].phase == Phase::evaluation) {
        begin = end_of(index);
        continue;
      }
      if (phases_[index].phase != Phase::forward) return begin;
      const std::uint32_t kept_from = last_return(index);
      const std::uint32_t end = end_of(index);
      // What remains of the forward is its result.
      if (kept_from + length_of(index) / kShare >= end) {
        begin = end;
        continue;
      }
      const std::uint32_t before = kept_from - phases_[index].first_event;
      const bool is_longer = length_of(index) > usual_forward_ + usual_forward_ / 4;
      return is_longer && before > usual_forward_ / 4 ? kept_from : begin;
    }
    // Neither a backward nor an optimizer step follows: its end was evaluation too.
    return end_of(past - 1);
  }

  // Where, in a forward, memory was last back at its level from when the forward began.
  [[nodiscard]] std::uint32_t last_return(std::size_t index) const {
    const Position from = phases_[index].first_event;
    if (ground_.live == nullptr) return from;
    const LiveChanges& live = *ground_.live;
    const Position to = std::min(end_of(index), live.last_position()) + 1;
    const std::uint64_t before = live.bytes_at(from);
    const std::uint64_t most = live.range(from, to).max_bytes;
    return last_at_most(from, to, before + (most - before) / kShare);
  }

  // The last position of [from, to) with this many bytes or fewer; the first position qualifies.
  [[nodiscard]] Position last_at_most(Position from, Position to, std::uint64_t bytes) const {
    const LiveChanges& live = *ground_.live;
    while (to - from > 1) {
      const Position middle = from + (to - from) / 2;
      if (live.range(middle, to).min_bytes <= bytes) {
        from = middle;
      } else {
        to = middle;
      }
    }
    return from;
  }

  // From the first phase to where training begins.
  void add_evaluation(std::size_t first, std::size_t past, std::uint32_t begin) {
    std::size_t index = first;
    while (index < past && phases_[index].phase == Phase::other) ++index;
    if (index == past || phases_[index].first_event >= begin) return;
    std::uint32_t end = begin;
    for (std::size_t last = past; last-- > index;) {
      if (phases_[last].first_event >= begin) continue;
      if (phases_[last].phase != Phase::other) {
        end = std::min(begin, end_of(last));
        break;
      }
    }
    add(0, SpanKind::evaluation, 0, phases_[index].first_event, end);
  }

  void add(std::uint32_t lane, SpanKind kind, std::uint32_t name, std::uint32_t first_event,
           std::uint32_t end_event) {
    Row row{first_event, end_event, kUnknownTime, kUnknownTime, kind, name};
    if (ground_.scale.has_times()) {
      row.from_ns = ground_.time_of(std::min(first_event, events_ - 1));
      row.to_ns = ground_.time_of(std::min(end_event, events_ - 1));
    }
    spans_.add(lane, row);
  }

  static constexpr std::uint32_t kShare = 20;  // a twentieth of what a forward used may stay live

  Spans& spans_;
  const std::vector<PhaseSpan>& phases_;
  const SpanGround& ground_;
  std::uint32_t events_;
  std::uint32_t usual_forward_ = 0;
  bool is_training_ = false;
};

// Starts and ends of annotations, paired by name, the innermost first.
class Spans::AnnotationReader {
 public:
  AnnotationReader(Spans& spans, const EventTimes& times, std::uint32_t first_lane, Position last)
      : spans_(spans), times_(times), first_lane_(first_lane), last_(last) {}

  void run(const DeviceRecord& record) {
    for (const Annotation& annotation : spans_.store_.annotations()) {
      if (annotation.device != record.device || annotation.time_ns == kUnknownTime) continue;
      if (annotation.stage == Annotation::Stage::start) {
        open(annotation);
      } else {
        close(annotation);
      }
    }
    for (std::size_t index = 0; index < rows_.size(); ++index)
      spans_.add(first_lane_ + depth_[index], rows_[index]);
  }

 private:
  void open(const Annotation& annotation) {
    const auto index = static_cast<std::uint32_t>(rows_.size());
    std::uint32_t& innermost = innermost_.find_or_insert(annotation.name.index, kNoEvent);
    rows_.push_back({times_.position_before(annotation.time_ns), last_, annotation.time_ns,
                     std::max(times_.last_ns(), annotation.time_ns), SpanKind::annotation,
                     annotation.name.index});
    depth_.push_back(open_count_++);
    outer_.push_back(innermost);
    innermost = index;
  }

  void close(const Annotation& annotation) {
    std::uint32_t* innermost = innermost_.find(annotation.name.index);
    if (innermost == nullptr || *innermost == kNoEvent) return;
    Row& row = rows_[*innermost];
    row.to = std::max(row.from, times_.position_before(annotation.time_ns));
    row.to_ns = std::max(row.from_ns, annotation.time_ns);
    *innermost = outer_[*innermost];
    --open_count_;
  }

  Spans& spans_;
  const EventTimes& times_;
  std::uint32_t first_lane_;
  Position last_;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> depth_;
  FlatMap<std::uint32_t> innermost_;  // name → the most recently opened span that is not closed yet
  std::vector<std::uint32_t> outer_;  // of each span: the open one of the same name before it
  std::uint32_t open_count_ = 0;
};

// Which parts of the lanes are drawn between two points of an axis.
class Spans::TileWriter {
 public:
  TileWriter(const Spans& spans, Axis axis, long double from, long double to, long double bucket)
      : spans_(spans), axis_(axis), from_(from), to_(to), bucket_(bucket) {}

  SpanTile run() {
    for (std::uint32_t lane = 0; lane < spans_.lanes_.size(); ++lane) add_lane(lane);
    return std::move(tile_);
  }

 private:
  [[nodiscard]] long double start(const Row& row) const {
    return axis_ == Axis::time ? static_cast<long double>(row.from_ns) : row.from;
  }
  [[nodiscard]] long double end(const Row& row) const {
    return axis_ == Axis::time ? static_cast<long double>(row.to_ns) : row.to;
  }

  void add_lane(std::uint32_t number) {
    const Lane& lane = spans_.lanes_[number];
    const std::vector<std::int64_t>& ends =
        axis_ == Axis::time ? lane.latest_end_ns : lane.latest_end_event;
    auto index = static_cast<std::size_t>(
        std::partition_point(
            ends.begin(), ends.end(),
            [&](std::int64_t latest) { return static_cast<long double>(latest) < from_; }) -
        ends.begin());
    const Row* first = nullptr;  // of the current run of narrow spans
    const Row* last = nullptr;
    std::uint64_t count = 0;
    const auto close = [&] {
      if (count > 0) emit(number, *first, *last, count);
      count = 0;
    };
    for (; index < lane.rows.size() && start(lane.rows[index]) < to_; ++index) {
      const Row& row = lane.rows[index];
      if (end(row) < from_) continue;
      if (end(row) - start(row) >= bucket_) {
        close();
        emit(number, row, row, 1);
        continue;
      }
      if (start(row) < from_) continue;  // drawn in the tile before
      if (count > 0 && start(row) - end(*last) >= bucket_) close();
      if (count++ == 0) first = &row;
      last = &row;
    }
    close();
  }

  void emit(std::uint32_t lane, const Row& first, const Row& last, std::uint64_t count) {
    if (tile_.spans.size() == kMostInTile) {
      tile_.left_out += count;
      return;
    }
    tile_.spans.push_back({spans_.name_of(first), spans_.name_of(last), first.from,
                           std::max(first.to, last.to), first.from_ns,
                           std::max(first.to_ns, last.to_ns), lane, first.kind, count});
  }

  const Spans& spans_;
  Axis axis_;
  long double from_;
  long double to_;
  long double bucket_;
  SpanTile tile_;
};

Spans::Spans(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& phases,
             const Timeline& timeline)
    : store_(store), scale_(timeline.scale()) {
  if (record.events.empty()) return;
  const EventTimes& times = timeline.times();
  const SpanGround ground{scale_, [&](std::uint32_t event) { return times.of_event(event); },
                          &timeline.allocated()};
  PhaseReader(*this, phases, ground).run();
  if (times.is_known()) AnnotationReader(*this, times, lane_count(), ground.events()).run(record);
  sort_lanes();
}

Spans::Spans(const Store& store, const std::vector<PhaseSpan>& phases, const SpanGround& ground)
    : store_(store), scale_(ground.scale) {
  if (ground.events() == 0) return;
  PhaseReader(*this, phases, ground).run();
  sort_lanes();
}

void Spans::add(std::uint32_t lane, const Row& row) {
  if (lane >= kMostLanes) {
    ++too_deep_;
    return;
  }
  if (lane >= lanes_.size()) lanes_.resize(lane + 1);
  lanes_[lane].rows.push_back(row);
}

void Spans::sort_lanes() {
  for (Lane& lane : lanes_) {
    std::stable_sort(lane.rows.begin(), lane.rows.end(), [](const Row& a, const Row& b) {
      return a.from != b.from ? a.from < b.from : a.from_ns < b.from_ns;
    });
    std::int64_t latest_event = 0;
    std::int64_t latest_ns = kUnknownTime;
    for (const Row& row : lane.rows) {
      latest_event = std::max<std::int64_t>(latest_event, row.to);
      latest_ns = latest_ns == kUnknownTime ? row.to_ns : std::max(latest_ns, row.to_ns);
      lane.latest_end_event.push_back(latest_event);
      lane.latest_end_ns.push_back(latest_ns);
    }
  }
}

std::uint64_t Spans::span_count() const {
  std::uint64_t count = too_deep_;
  for (const Lane& lane : lanes_) count += lane.rows.size();
  return count;
}

std::string Spans::name_of(const Row& row) const {
  switch (row.kind) {
    case SpanKind::step:
      return "step " + std::to_string(row.name);
    case SpanKind::evaluation:
      return "evaluation";
    case SpanKind::phase: {
      std::string name(phase_name(static_cast<Phase>(row.name)));
      std::replace(name.begin(), name.end(), '_', ' ');
      return name;
    }
    case SpanKind::annotation:
      break;
  }
  StringId name;
  name.index = row.name;
  return std::string(store_.text(name));
}

Result<SpanTile> Spans::tile(const TileAddress& address) const {
  if (const Status exists = scale_.check(address); !exists) return exists.error();
  const TimelineScale::Stretch stretch = scale_.stretch_of(address);
  return tile_between(address.axis, stretch.from, stretch.to);
}

SpanTile Spans::tile_between(Axis axis, long double from, long double to) const {
  return TileWriter(*this, axis, from, to, (to - from) / Timeline::kTileBuckets).run();
}

}  // namespace gpumemprof
