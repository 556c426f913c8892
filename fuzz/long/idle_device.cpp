#include "long/idle_device.h"

#include <array>

namespace gpumemprof::fuzz {
namespace {

constexpr std::uint64_t kIdleAddress = std::uint64_t{1} << 45U;
constexpr std::uint64_t kIdleBlockBytes = std::uint64_t{1} << 20U;

std::uint32_t any_position(Choices& choices) {
  return static_cast<std::uint32_t>(choices.one_in(3) ? odd_number(choices, 0) : choices.below(8));
}

BlockStateKind any_state(Choices& choices) { return static_cast<BlockStateKind>(choices.below(3)); }

void list_blocks(EventSink& sink, DeviceIndex device, Choices& choices) {
  SegmentState segment;
  segment.device = device;
  segment.address = kIdleAddress + (choices.below(3) * 20 * kIdleBlockBytes);
  segment.stream = sink.add_stream(0);
  segment.is_expandable = choices.one_in(3);
  std::vector<BlockState> blocks(1 + choices.below(5));
  for (BlockState& block : blocks) {
    block.address = segment.address + segment.size_bytes;
    block.size_bytes = kIdleBlockBytes * (1 + choices.below(4));
    block.state = any_state(choices);
    block.requested_bytes = block.size_bytes - choices.below(513);
    segment.size_bytes += block.size_bytes;
  }
  sink.add_segment(choices.one_in(5) ? StateEdge::end : StateEdge::start, segment, blocks);
}

void lose_events(EventSink& sink, DeviceIndex device, Choices& choices) {
  LostEvents lost;
  lost.device = device;
  lost.before_event = any_position(choices);
  lost.count = odd_number(choices, 7);
  if (choices.one_in(2)) lost.end_event = any_position(choices);
  sink.add_lost_events(lost);
}

void sample_card(EventSink& sink, DeviceIndex device, Choices& choices) {
  DeviceSample sample;
  sample.device = device;
  sample.time_ns = static_cast<std::int64_t>(odd_number(choices, 1'000'000'000));
  sample.total_bytes = odd_number(choices, std::uint64_t{80} << 30U);
  sample.used_bytes = odd_number(choices, std::uint64_t{40} << 30U);
  sample.before_event = any_position(choices);
  sink.add_sample(sample);
}

void say_something(Store& store, DeviceIndex device, Choices& choices) {
  switch (choices.below(7)) {
    case 0:
    case 1:
      return list_blocks(store, device, choices);
    case 2:
      return store.add_phase_mark(
          {device, static_cast<PhaseMark::Kind>(choices.below(kPhaseMarkKindCount)),
           static_cast<std::uint32_t>(choices.below(4)), any_position(choices)});
    case 3: {
      const std::array<Label, 1> labels = {
          Label{LabelKind::parameter, kIdleAddress, store.add_string("weight")}};
      return store.add_labelling({device, store.add_label_set(labels), any_position(choices)});
    }
    case 4:
      return lose_events(store, device, choices);
    case 5:
      return sample_card(store, device, choices);
    default: {
      Annotation annotation;
      annotation.name = store.add_string("ProfilerStep#1");
      annotation.device = device;
      annotation.time_ns = static_cast<std::int64_t>(odd_number(choices, 1));
      return store.add_annotation(annotation);
    }
  }
}

}  // namespace

void add_idle_device(Store& store, Choices& choices) {
  const auto device = static_cast<DeviceIndex>(1 + choices.below(6));
  for (std::size_t count = 1 + choices.below(3); count > 0; --count)
    say_something(store, device, choices);
}

}  // namespace gpumemprof::fuzz
