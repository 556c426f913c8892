#include "trace/content/labels.h"

#include "trace/content/device.h"
#include "trace/format.h"

namespace gpumemprof::trace {
namespace {

constexpr std::size_t kBytesPerBlock = std::size_t{1} << 20;
constexpr std::size_t kMostBytesPerMark = 24;

void put_string(OutBytes& out, StringId id) {
  out.varint(id.is_none() ? 0 : std::uint64_t{id.index} + 1);
}

StringId take_string(InBytes& in, const DefinitionMap& definitions) {
  const std::uint64_t row = in.below(definitions.strings().size() + 1);
  return row == 0 ? StringId() : definitions.strings()[row - 1];
}

std::uint32_t take_u32(InBytes& in) {
  return static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32));
}

}  // namespace

std::uint32_t LabelEncoder::add_set(std::span<const Label> labels) {
  sets_.varint(labels.size());
  std::uint64_t last_address = 0;
  std::int64_t last_name = 0;
  for (const Label& label : labels) {
    sets_.byte(static_cast<std::uint8_t>(label.kind));
    sets_.signed_varint(static_cast<std::int64_t>(label.address - last_address));
    const std::int64_t name = label.name.is_none() ? -1 : std::int64_t{label.name.index};
    sets_.signed_varint(name - last_name);
    last_address = label.address;
    last_name = name;
  }
  ++sets_in_block_;
  return set_count_++;
}

bool LabelEncoder::is_full() const {
  const std::size_t rows = labellings_.size() + marks_.size() + modules_.size();
  return sets_.size() + rows * kMostBytesPerMark >= kBytesPerBlock;
}

void LabelEncoder::encode(OutBytes& out) {
  out.varint(sets_in_block_);
  out.bytes(sets_.span());
  out.varint(modules_.size());
  for (const ModuleLabel& module : modules_) {
    put_string(out, module.path);
    put_string(out, module.class_name);
    put_string(out, module.forward_file);
    out.varint(module.forward_line);
    out.varint(module.forward_last_line);
    out.varint(module.number == kNoModule ? 0 : std::uint64_t{module.number} + 1);
    out.byte(module.is_root ? 1 : 0);
  }
  out.varint(labellings_.size());
  for (const Labelling& labelling : labellings_) {
    out.signed_varint(labelling.device);
    out.varint(labelling.set);
    out.varint(labelling.before_event);
  }
  out.varint(marks_.size());
  for (const PhaseMark& mark : marks_) {
    out.signed_varint(mark.device);
    out.byte(static_cast<std::uint8_t>(mark.kind));
    out.varint(mark.number);
    out.varint(mark.before_event);
  }
  sets_.clear();
  sets_in_block_ = 0;
  labellings_.clear();
  marks_.clear();
  modules_.clear();
}

bool LabelDecoder::decode_set(InBytes& in, const DefinitionMap& definitions, EventSink& sink) {
  labels_.clear();
  std::uint64_t address = 0;
  std::int64_t name = 0;
  const std::size_t count = in.count();
  if (count > kMaxLabelsPerSet) in.fail();
  for (std::size_t left = count; left > 0 && in.ok(); --left) {
    Label label;
    const std::uint8_t kind = in.byte();
    if (kind >= kLabelKindCount) in.fail();
    label.kind = static_cast<LabelKind>(kind);
    address += static_cast<std::uint64_t>(in.signed_varint());
    label.address = address;
    // Unsigned, so that no number from a forged file overflows.
    name = static_cast<std::int64_t>(static_cast<std::uint64_t>(name) +
                                     static_cast<std::uint64_t>(in.signed_varint()));
    if (name < -1 || name >= std::ssize(definitions.strings())) {
      in.fail();
      break;
    }
    if (name >= 0) label.name = definitions.strings()[static_cast<std::size_t>(name)];
    labels_.push_back(label);
  }
  if (!in.ok()) return false;
  sets_.push_back(sink.add_label_set(labels_));
  memory_bytes_ += labels_.size() * sizeof(Label) + sizeof(std::size_t);
  return true;
}

ModuleLabel LabelDecoder::decode_module(InBytes& in, const DefinitionMap& definitions) {
  ModuleLabel module;
  module.path = take_string(in, definitions);
  module.class_name = take_string(in, definitions);
  module.forward_file = take_string(in, definitions);
  module.forward_line = take_u32(in);
  module.forward_last_line = take_u32(in);
  const std::uint64_t number = in.below(std::uint64_t{kMaxModules} + 1);
  if (number > 0) module.number = static_cast<std::uint32_t>(number - 1);
  module.is_root = in.below(2) != 0;
  return module;
}

bool LabelDecoder::decode(InBytes in, const DefinitionMap& definitions, EventSink& sink) {
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    if (!decode_set(in, definitions, sink)) return false;
  }
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    const ModuleLabel module = decode_module(in, definitions);
    if (!in.ok()) break;
    sink.add_module(module);
    memory_bytes_ += sizeof(module);
  }
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    Labelling labelling;
    labelling.device = take_device(in);
    const std::uint64_t set = in.below(first_set_ + sets_.size());
    labelling.before_event = take_u32(in);
    if (!in.ok()) break;
    if (set >= first_set_) {
      labelling.set = sets_[set - first_set_];
    } else if (const std::optional<std::uint32_t> earlier = find_earlier_(set)) {
      labelling.set = *earlier;
    } else {
      return false;
    }
    sink.add_labelling(labelling);
    memory_bytes_ += sizeof(labelling);
  }
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    PhaseMark mark;
    mark.device = take_device(in);
    const std::uint8_t kind = in.byte();
    if (kind >= kPhaseMarkKindCount) in.fail();
    mark.kind = static_cast<PhaseMark::Kind>(kind);
    mark.number = take_u32(in);
    mark.before_event = take_u32(in);
    if (!in.ok()) break;
    sink.add_phase_mark(mark);
    memory_bytes_ += sizeof(mark);
  }
  return in.is_spent();
}

}  // namespace gpumemprof::trace
