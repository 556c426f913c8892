#include "verbs/trace_mutation.h"

#include <algorithm>

#include "base/byte_source.h"
#include "trace/block.h"

namespace gpumemprof::fuzz {
namespace {

constexpr std::size_t kMostTraceEvents = 4000;

class StoreMutation {
 public:
  StoreMutation(Store& store, Choices& choices) : store_(store), choices_(choices) {}

  void run() {
    for (std::size_t changes = std::size_t{1} << choices_.below(6); changes > 0; --changes)
      change();
  }

 private:
  void change() {
    if (store_.devices().empty()) return;
    DeviceRecord& record = *store_.devices()[choices_.below(store_.devices().size())];
    switch (choices_.below(14)) {
      case 0:
      case 1:
      case 2:
        return rearrange_events(record);
      case 3:
      case 4:
      case 5:
        return change_event(record.events);
      case 6:
        return drop_stacks(record.events);
      case 7:
        return change_times(record.events);
      case 8:
        return change_state(choices_.one_in(2) ? record.start_state : record.final_state);
      case 9:
        return change_labels(record);
      case 10:
        return change_phases(record);
      case 11:
        return change_samples(record);
      case 12:
        return add_annotation(record);
      default:
        return change_origin();
    }
  }

  std::uint32_t any_event(const DeviceRecord& record) {
    if (choices_.one_in(8)) return static_cast<std::uint32_t>(odd_number(choices_, 0));
    return static_cast<std::uint32_t>(choices_.below(record.events.size() + 1));
  }
  std::size_t any_row(std::size_t rows) { return choices_.below(rows); }
  StackId any_stack() {
    const std::size_t row = any_row(store_.stacks().size() + 1);
    return row == store_.stacks().size() ? StackId() : StackId(row);
  }
  StringId any_string() { return StringId(any_row(store_.strings().size())); }

  // Removes a range of events, or inserts it elsewhere, as a copy or a move.
  void rearrange_events(DeviceRecord& record) {
    EventColumns& events = record.events;
    const std::size_t size = events.size();
    std::size_t first = any_row(size + 1);
    std::size_t end = choices_.one_in(3) ? std::min(first + 1, size) : any_row(size + 1);
    if (end < first) std::swap(first, end);
    const std::size_t place = any_row(size + 1);
    const bool keeps = choices_.one_in(2) && size < kMostTraceEvents;
    const bool inserts = keeps || choices_.one_in(2);
    EventColumns changed;
    for (std::size_t row = 0; row <= size; ++row) {
      if (row == place && inserts) changed.append(events, first, end - first);
      if (row < size && (keeps || row < first || row >= end)) changed.append(events, row, 1);
    }
    events = std::move(changed);
  }

  void change_event(EventColumns& events) {
    if (events.empty()) return;
    const std::size_t row = any_row(events.size());
    switch (choices_.below(7)) {
      case 0:
        events.action[row] = static_cast<Action>(choices_.below(kActionCount));
        break;
      case 1:
        events.address[row] = choices_.one_in(2) ? events.address[any_row(events.size())]
                                                 : odd_number(choices_, events.address[row]);
        break;
      case 2:
        events.size_bytes[row] = odd_number(choices_, events.size_bytes[row]);
        break;
      case 3:
        if (store_.stream_count() > 0)
          events.stream[row] = static_cast<std::uint32_t>(any_row(store_.stream_count()));
        break;
      case 4:
        events.stack[row] = any_stack();
        break;
      case 5:
        if (!events.pool.empty() && store_.pool_count() > 0)
          events.pool[row] = static_cast<std::uint32_t>(any_row(store_.pool_count()));
        break;
      default:
        if (!events.forward_stack.empty()) events.forward_stack[row] = any_stack();
    }
  }

  void drop_stacks(EventColumns& events) {
    const std::size_t first = any_row(events.size() + 1);
    const std::size_t chances = std::size_t{1} << choices_.below(8);
    for (std::size_t row = first; row < events.size(); ++row) {
      if (choices_.one_in(chances)) events.stack[row] = StackId();
    }
  }

  void change_times(EventColumns& events) {
    if (events.empty()) return;
    const std::size_t first = any_row(events.size());
    const auto constant = static_cast<std::int64_t>(odd_number(choices_, 1'000'000));
    const std::size_t kind = choices_.below(4);
    for (std::size_t row = first; row < events.size(); ++row) {
      if (kind == 0) events.time_ns[row] = kUnknownTime;
      if (kind == 1) events.time_ns[row] = constant;
      if (kind == 2) events.time_ns[row] = -(events.time_ns[row] / 2);
      if (kind == 3 && row == first) events.time_ns[row] = constant;
    }
  }

  void change_state(ListedState& state) {
    if (state.segments.empty()) return;
    SegmentState& segment = state.segments[any_row(state.segments.size())];
    const bool has_block = !state.blocks.empty() && choices_.one_in(2);
    if (!has_block) {
      switch (choices_.below(5)) {
        case 0:
          segment.address = odd_number(choices_, segment.address);
          break;
        case 1:
          segment.size_bytes = odd_number(choices_, segment.size_bytes);
          break;
        case 2:
          segment.is_expandable = !segment.is_expandable;
          break;
        case 3:
          segment.is_small = !segment.is_small;
          break;
        default:
          segment.stack = any_stack();
      }
      return;
    }
    BlockState& block = state.blocks[any_row(state.blocks.size())];
    switch (choices_.below(4)) {
      case 0:
        block.address = odd_number(choices_, block.address);
        break;
      case 1:
        block.size_bytes = odd_number(choices_, block.size_bytes);
        break;
      case 2:
        block.requested_bytes = odd_number(choices_, block.requested_bytes);
        break;
      default:
        block.state = static_cast<BlockStateKind>(choices_.below(3));
    }
  }

  void change_labels(DeviceRecord& record) {
    if (choices_.one_in(2) && !record.labellings.empty()) {
      Labelling& labelling = record.labellings[any_row(record.labellings.size())];
      labelling.before_event = any_event(record);
      if (choices_.one_in(3)) std::swap(labelling, record.labellings.front());
      return;
    }
    std::vector<Label> labels(choices_.below(6));
    for (Label& label : labels) {
      label.kind = static_cast<LabelKind>(choices_.below(kLabelKindCount));
      label.address = record.events.empty() ? choices_.number()
                                            : record.events.address[any_row(record.events.size())];
      label.name = any_string();
    }
    const std::uint32_t set = store_.add_label_set(labels);
    record.labellings.push_back({record.device, set, any_event(record)});
  }

  void change_phases(DeviceRecord& record) {
    std::vector<PhaseMark>& marks = record.phase_marks;
    if (!marks.empty() && choices_.one_in(3)) {
      marks.erase(marks.begin() + static_cast<std::ptrdiff_t>(any_row(marks.size())));
      return;
    }
    PhaseMark mark;
    mark.device = record.device;
    mark.kind = static_cast<PhaseMark::Kind>(choices_.below(kPhaseMarkKindCount));
    mark.number = static_cast<std::uint32_t>(odd_number(choices_, 1));
    mark.before_event = any_event(record);
    marks.insert(marks.begin() + static_cast<std::ptrdiff_t>(any_row(marks.size() + 1)), mark);
  }

  void change_samples(DeviceRecord& record) {
    if (choices_.one_in(3)) {
      record.lost_events.push_back({record.device, any_event(record), odd_number(choices_, 10)});
      return;
    }
    DeviceSample sample;
    sample.device = record.device;
    sample.time_ns = static_cast<std::int64_t>(odd_number(choices_, 1'000'000'000));
    sample.total_bytes = odd_number(choices_, std::uint64_t{80} << 30);
    sample.used_bytes = odd_number(choices_, std::uint64_t{40} << 30);
    sample.process_bytes = odd_number(choices_, std::uint64_t{30} << 30);
    sample.other_processes_bytes = odd_number(choices_, 0);
    sample.firmware_bytes = odd_number(choices_, 0);
    sample.before_event = any_event(record);
    sample.libraries = static_cast<std::uint8_t>(choices_.below(256));
    store_.add_sample(sample);
  }

  void add_annotation(const DeviceRecord& record) {
    Annotation annotation;
    annotation.name = choices_.one_in(2)
                          ? store_.add_string("ProfilerStep#" + std::to_string(choices_.below(9)))
                          : any_string();
    annotation.stage = choices_.one_in(2) ? Annotation::Stage::start : Annotation::Stage::end;
    annotation.device = record.device;
    annotation.time_ns = record.events.empty() || choices_.one_in(4)
                             ? static_cast<std::int64_t>(odd_number(choices_, 1))
                             : record.events.time_ns[any_row(record.events.size())];
    store_.add_annotation(annotation);
  }

  void change_origin() {
    Origin origin = store_.origin();
    switch (choices_.below(6)) {
      case 0:
        origin.device_type = origin.device_type == "cpu" ? "cuda" : "cpu";
        break;
      case 1:
        origin.has_segments = !origin.has_segments;
        break;
      case 2:
        origin.has_start = !origin.has_start;
        break;
      case 3:
        origin.has_traces = !origin.has_traces;
        break;
      case 4: {
        constexpr std::string_view kValues[] = {"",      "0", "-1", "18446744073709551616",
                                                "1e400", "x"};
        for (auto& [name, value] : origin.facts) {
          if (choices_.one_in(4)) value = kValues[choices_.below(std::size(kValues))];
        }
        break;
      }
      default: {
        AllocatorSettings settings = store_.settings();
        settings.max_split_bytes = odd_number(choices_, std::uint64_t{1} << 26);
        settings.large_segment_bytes = odd_number(choices_, std::uint64_t{20} << 20);
        settings.expandable_segments = choices_.one_in(2);
        settings.settle();
        store_.set_settings(settings);
      }
    }
    store_.set_origin(origin);
  }

  Store& store_;
  Choices& choices_;
};

void change_content(std::vector<std::uint8_t>& content, Choices& choices) {
  for (std::size_t changes = std::size_t{1} << choices.below(4); changes > 0; --changes) {
    if (content.empty()) return;
    const std::size_t at = choices.below(content.size());
    switch (choices.below(4)) {
      case 0:
        content[at] ^= static_cast<std::uint8_t>(1U << choices.below(8));
        break;
      case 1:
        content[at] = static_cast<std::uint8_t>(choices.below(256));
        break;
      case 2:
        content.insert(content.begin() + static_cast<std::ptrdiff_t>(at),
                       static_cast<std::uint8_t>(choices.below(256)));
        break;
      default:
        content.erase(content.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

}  // namespace

void mutate_store(Store& store, Choices& choices) { StoreMutation(store, choices).run(); }

std::vector<PlainBlock> blocks_of(std::span<const std::uint8_t> file) {
  std::vector<PlainBlock> blocks;
  if (file.size() < trace::kFileHeaderBytes) return blocks;
  BufferSource source(std::as_bytes(file.subspan(trace::kFileHeaderBytes)));
  trace::BlockReader reader(source);
  trace::Block block;
  while (reader.next(block) == trace::BlockReader::Outcome::block)
    blocks.push_back({block.kind, {block.content.begin(), block.content.end()}});
  return blocks;
}

FileBytes file_of(std::span<const std::uint8_t> file, const std::vector<PlainBlock>& blocks,
                  int compression_level) {
  trace::OutBytes out;
  out.bytes(file.first(std::min(file.size(), trace::kFileHeaderBytes)));
  trace::BlockPacker packer(compression_level);
  for (const PlainBlock& block : blocks)
    packer.pack(block.kind, std::span<const std::uint8_t>(block.content), out);
  return {out.span().begin(), out.span().end()};
}

FileBytes mutate_blocks(std::span<const std::uint8_t> file, Choices& choices) {
  std::vector<PlainBlock> blocks = blocks_of(file);
  for (std::size_t changes = std::size_t{1} << choices.below(3); changes > 0; --changes) {
    if (blocks.empty()) break;
    const std::size_t at = choices.below(blocks.size());
    switch (choices.below(8)) {
      case 0:
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        blocks.push_back(blocks[at]);
        break;
      case 2:
        std::swap(blocks[at], blocks[choices.below(blocks.size())]);
        break;
      default:
        change_content(blocks[at].content, choices);
    }
  }
  return file_of(file, blocks, choices.one_in(2) ? 1 : 0);
}

}  // namespace gpumemprof::fuzz
