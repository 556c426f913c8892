#include "trace/content/annotations.h"

#include "event/rules/plausible.h"
#include "trace/content/device.h"

namespace gpumemprof::trace {

void Annotations::clear() {
  annotations.clear();
  lost_events.clear();
  samples.clear();
}

void encode_annotations(OutBytes& out, const Annotations& block) {
  out.varint(block.annotations.size());
  for (const Annotation& annotation : block.annotations) {
    out.varint(annotation.name.is_none() ? 0 : std::uint64_t{annotation.name.index} + 1);
    out.byte(static_cast<std::uint8_t>(annotation.stage));
    out.signed_varint(annotation.device);
    out.signed_varint(annotation.time_ns);
  }
  out.varint(block.lost_events.size());
  for (const LostEvents& lost : block.lost_events) {
    out.signed_varint(lost.device);
    out.varint(lost.before_event);
    out.varint(lost.count);
    out.varint(lost.end_event);
    out.signed_varint(lost.first_time_ns);
    out.signed_varint(lost.last_time_ns);
    out.varint(lost.allocations);
    out.varint(lost.frees);
  }
  out.varint(block.samples.size());
  for (const DeviceSample& sample : block.samples) {
    out.signed_varint(sample.device);
    out.signed_varint(sample.time_ns);
    // The bytes plus one, so that unknown is 0.
    out.varint(sample.total_bytes + 1);
    out.varint(sample.used_bytes + 1);
    out.varint(sample.process_bytes + 1);
    out.varint(sample.other_processes_bytes + 1);
    out.varint(sample.firmware_bytes + 1);
    out.varint(std::uint64_t{static_cast<std::uint32_t>(sample.before_event + 1)});
    out.byte(sample.libraries);
  }
}

bool decode_annotations(InBytes in, const DefinitionMap& definitions, Annotations& block) {
  block.clear();
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    Annotation annotation;
    const std::uint64_t name = in.below(definitions.strings().size() + 1);
    if (name != 0) annotation.name = definitions.strings()[name - 1];
    const std::uint8_t stage = in.byte();
    if (stage > 1) in.fail();
    annotation.stage = static_cast<Annotation::Stage>(stage & 1);
    annotation.device = take_device(in);
    annotation.time_ns = plausible_time(in.signed_varint());
    block.annotations.push_back(annotation);
  }
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    LostEvents lost;
    lost.device = take_device(in);
    lost.before_event = static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32));
    lost.count = in.varint();
    lost.end_event = static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32));
    lost.first_time_ns = in.signed_varint();
    lost.last_time_ns = in.signed_varint();
    lost.allocations = in.varint();
    lost.frees = in.varint();
    block.lost_events.push_back(lost);
  }
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    DeviceSample sample;
    sample.device = take_device(in);
    sample.time_ns = plausible_time(in.signed_varint());
    sample.total_bytes = plausible_bytes(in.varint() - 1);
    sample.used_bytes = plausible_bytes(in.varint() - 1);
    sample.process_bytes = plausible_bytes(in.varint() - 1);
    sample.other_processes_bytes = plausible_bytes(in.varint() - 1);
    sample.firmware_bytes = plausible_bytes(in.varint() - 1);
    sample.before_event =
        static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32)) - std::uint32_t{1};
    sample.libraries = in.byte();
    block.samples.push_back(sample);
  }
  return in.is_spent();
}

}  // namespace gpumemprof::trace
