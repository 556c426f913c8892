#include "trace/chapters/chapter_stretch.h"

#include "event/sinks/forwarding_sink.h"
#include "trace/chapters/chapter_walk.h"

namespace gpumemprof {
namespace {

Error changed_folder(const std::string& folder) {
  return {ErrorCode::bad_input, "the recording is not what its index was made of", folder,
          "delete " + folder + ".index: it is made again"};
}

// Lets through what belongs to the stretch, with the numbers of the run.
class StretchGate final : public ForwardingSink {
 public:
  StretchGate(EventSink& to, const ChapterStretch& stretch)
      : ForwardingSink(to), stretch_(stretch) {}

  void begin(trace::DefinedRows rows) {
    rows_ = std::move(rows);
    strings_ = stacks_ = streams_ = pools_ = 0;
  }
  void open() { is_open_ = true; }
  // A chapter defined something that it did not when it was read before.
  [[nodiscard]] bool is_bad() const { return is_bad_; }

  StringId add_string(std::string_view /*text*/) override { return next(rows_.strings, strings_); }
  FrameId add_frame(const Frame& /*frame*/) override { return {}; }
  StackId add_stack(StackId /*caller*/, FrameId /*frame*/) override {
    return next(rows_.stacks, stacks_);
  }
  std::uint32_t add_stream(std::uint64_t /*handle*/) override {
    return next(rows_.streams, streams_);
  }
  std::uint32_t add_pool(PoolId /*pool*/) override { return next(rows_.pools, pools_); }
  void add_native_module(const NativeModule& /*module*/) override {}
  void add_segment(StateEdge /*edge*/, const SegmentState& /*segment*/,
                   std::span<const BlockState> /*blocks*/) override {}
  void add_module(const ModuleLabel& /*module*/) override {}
  void set_settings(const AllocatorSettings& /*settings*/) override {}
  void set_origin(const Origin& /*origin*/) override {}
  void add_chapter_start(const ChapterStart& /*start*/) override {}

  void add_events(DeviceIndex device, EventColumns&& events) override {
    if (device != stretch_.device) return;
    if (is_open_) {
      to_.add_events(device, std::move(events));
    } else {
      skipped_ += events.size();
    }
  }
  void add_annotation(const Annotation& annotation) override {
    if (is_open_) to_.add_annotation(annotation);
  }
  void add_lost_events(const LostEvents& lost) override {
    LostEvents moved = lost;
    if (move(lost.device, moved.before_event) && move(lost.device, moved.end_event))
      to_.add_lost_events(moved);
  }
  void add_sample(const DeviceSample& sample) override {
    DeviceSample moved = sample;
    if (sample.before_event == kNoEvent ? is_open_ : move(sample.device, moved.before_event))
      to_.add_sample(moved);
  }
  void add_labelling(const Labelling& labelling) override {
    Labelling moved = labelling;
    if (move(labelling.device, moved.before_event)) to_.add_labelling(moved);
  }
  void add_phase_mark(const PhaseMark& mark) override {
    PhaseMark moved = mark;
    if (move(mark.device, moved.before_event)) to_.add_phase_mark(moved);
  }

 private:
  template <typename T>
  T next(const std::vector<T>& rows, std::size_t& row) {
    if (row < rows.size()) return rows[row++];
    is_bad_ = true;
    return T();
  }
  // False: it is about something else.
  [[nodiscard]] bool move(DeviceIndex device, std::uint32_t& position) const {
    if (!is_open_ || device != stretch_.device || position < skipped_) return false;
    position = static_cast<std::uint32_t>(position - skipped_ + stretch_.first_event);
    return true;
  }

  const ChapterStretch& stretch_;
  trace::DefinedRows rows_;
  // The next of each.
  std::size_t strings_ = 0;
  std::size_t stacks_ = 0;
  std::size_t streams_ = 0;
  std::size_t pools_ = 0;
  std::uint64_t skipped_ = 0;  // events before the stretch
  bool is_open_ = false;
  bool is_bad_ = false;
};

class StretchWalk final : public ChapterWalk::Visitor {
 public:
  StretchWalk(StretchGate& gate, const ChapterStretch& stretch, const RowsOfChapter& rows_of)
      : gate_(gate), stretch_(stretch), rows_of_(rows_of) {}

  bool begin(std::uint32_t chapter) override {
    std::optional<trace::DefinedRows> rows = rows_of_(chapter);
    if (rows) gate_.begin(std::move(*rows));
    is_known_ = rows.has_value();
    return is_known_;
  }
  bool reach(const RecordingPlace& place, std::uint64_t /*bytes_before*/) override {
    if (!place.is_before(stretch_.from)) gate_.open();
    is_ended_ = !place.is_before(stretch_.to);
    return !is_ended_ && !gate_.is_bad();
  }
  [[nodiscard]] bool is_whole() const { return is_known_ && is_ended_ && !gate_.is_bad(); }

 private:
  StretchGate& gate_;
  const ChapterStretch& stretch_;
  const RowsOfChapter& rows_of_;
  bool is_known_ = true;
  bool is_ended_ = false;
};

}  // namespace

Status deliver_stretch(const std::string& folder, const ChapterStretch& stretch,
                       const RowsOfChapter& rows_of, EventSink& sink) {
  const Result<std::unique_ptr<HeldChapters>> chapters =
      HeldChapters::open(folder, HeldChapters::Hold::none);
  if (!chapters) return chapters.error();
  StretchGate gate(sink, stretch);
  ChapterJoin join(gate);
  StretchWalk visitor(gate, stretch, rows_of);
  ChapterWalk walk(*chapters.value(), join, 0);
  Status walked = walk.run(stretch.from.from_chapter, visitor);
  if (!walked) return walked;
  if (!visitor.is_whole()) return changed_folder(folder);
  return Done{};
}

}  // namespace gpumemprof
