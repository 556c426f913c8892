#include "ingest/foreign/jax_profile.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/utf8.h"
#include "event/foreign/foreign_file.h"
#include "ingest/foreign/foreign_input.h"
#include "ingest/foreign/proto_fields.h"

namespace gpumemprof {
namespace {

// The parts of pprof's profile.proto that matter here.
struct PprofLine {
  std::uint64_t function = 0;
  std::uint64_t line = 0;
};
struct PprofFunction {
  std::uint64_t name = 0;
  std::uint64_t file = 0;
};
struct PprofSample {
  std::vector<std::uint64_t> locations;  // innermost first
  std::vector<std::uint64_t> values;
  std::map<std::uint64_t, std::uint64_t> labels;  // texts, by the row of their name
};

class PprofProfile {
 public:
  // False: it is damaged; what was read before that is there.
  bool read(std::string_view bytes) {
    ProtoFields fields(bytes);
    while (const std::optional<ProtoField> field = fields.next()) {
      if (!field->has_bytes) continue;
      switch (field->number) {
        case 1:
          types_.push_back(pair_of(field->bytes));
          break;
        case 2:
          read_sample(field->bytes);
          break;
        case 4:
          read_location(field->bytes);
          break;
        case 5:
          read_function(field->bytes);
          break;
        case 6:
          strings_.push_back(field->bytes);
          break;
        default:
          break;
      }
    }
    return !fields.is_broken();
  }

  // The column of the values with this name, "space", and unit.
  [[nodiscard]] std::optional<std::size_t> column(std::string_view name,
                                                  std::string_view unit) const {
    for (std::size_t index = 0; index < types_.size(); ++index) {
      if (text(types_[index].second) == unit && text(types_[index].first) == name) return index;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string type_names() const {
    std::string names;
    for (const auto& [name, unit] : types_)
      names += (names.empty() ? "" : ", ") + std::string(text(name));
    return names;
  }
  [[nodiscard]] bool has_types() const { return !types_.empty() && !strings_.empty(); }
  [[nodiscard]] const std::vector<PprofSample>& samples() const { return samples_; }
  [[nodiscard]] std::string_view text(std::uint64_t row) const {
    return row < strings_.size() ? strings_[row] : std::string_view();
  }
  [[nodiscard]] std::string_view label(const PprofSample& sample, std::string_view name) const {
    for (const auto& [key, value] : sample.labels) {
      if (text(key) == name) return text(value);
    }
    return {};
  }

  StackId add_stack(const PprofSample& sample, EventSink& sink) const {
    StackId stack;
    for (auto id = sample.locations.rbegin(); id != sample.locations.rend(); ++id) {
      const auto lines = locations_.find(*id);
      if (lines == locations_.end()) continue;
      // The last line of a location is the caller of those inlined into it.
      for (auto line = lines->second.rbegin(); line != lines->second.rend(); ++line) {
        const auto function = functions_.find(line->function);
        Frame frame;
        frame.name = add_text(function == functions_.end() ? 0 : function->second.name, sink);
        frame.file = add_text(function == functions_.end() ? 0 : function->second.file, sink);
        constexpr std::uint64_t kMostLines = 0xffffffffU;
        frame.line = static_cast<std::uint32_t>(std::min(line->line, kMostLines));
        stack = sink.add_stack(stack, sink.add_frame(frame));
      }
    }
    return stack;
  }

 private:
  [[nodiscard]] StringId add_text(std::uint64_t row, EventSink& sink) const {
    const std::string_view found = text(row);
    return sink.add_string(is_valid_utf8(found) ? std::string(found) : repaired_utf8(found));
  }

  static std::pair<std::uint64_t, std::uint64_t> pair_of(std::string_view message) {
    std::pair<std::uint64_t, std::uint64_t> pair;
    ProtoFields fields(message);
    while (const std::optional<ProtoField> field = fields.next()) {
      if (field->number == 1) pair.first = field->value;
      if (field->number == 2) pair.second = field->value;
    }
    return pair;
  }

  static void read_numbers(const ProtoField& field, std::vector<std::uint64_t>& numbers) {
    if (!field.has_bytes) {
      numbers.push_back(field.value);
      return;
    }
    ProtoFields packed(field.bytes);
    while (!packed.is_empty()) {
      const std::optional<std::uint64_t> number = packed.varint();
      if (!number) return;
      numbers.push_back(*number);
    }
  }

  void read_sample(std::string_view message) {
    PprofSample& sample = samples_.emplace_back();
    ProtoFields fields(message);
    while (const std::optional<ProtoField> field = fields.next()) {
      if (field->number == 1) read_numbers(*field, sample.locations);
      if (field->number == 2) read_numbers(*field, sample.values);
      if (field->number == 3 && field->has_bytes) sample.labels.insert(pair_of(field->bytes));
    }
  }

  void read_location(std::string_view message) {
    std::uint64_t id = 0;
    std::vector<PprofLine> lines;
    ProtoFields fields(message);
    while (const std::optional<ProtoField> field = fields.next()) {
      if (field->number == 1) id = field->value;
      if (field->number != 4 || !field->has_bytes) continue;
      const auto [function, line] = pair_of(field->bytes);
      lines.push_back({function, line});
    }
    locations_[id] = std::move(lines);
  }

  void read_function(std::string_view message) {
    std::uint64_t id = 0;
    PprofFunction function;
    ProtoFields fields(message);
    while (const std::optional<ProtoField> field = fields.next()) {
      if (field->number == 1) id = field->value;
      if (field->number == 2) function.name = field->value;
      if (field->number == 4) function.file = field->value;
    }
    functions_[id] = function;
  }

  std::vector<std::pair<std::uint64_t, std::uint64_t>> types_;
  std::vector<PprofSample> samples_;
  std::unordered_map<std::uint64_t, std::vector<PprofLine>> locations_;
  std::unordered_map<std::uint64_t, PprofFunction> functions_;
  std::vector<std::string_view> strings_;
};

// "cuda:0" and "TFRT_CPU_0" name a kind of device and a number.
struct NamedDevice {
  std::string kind;
  DeviceIndex number = 0;
};

NamedDevice named_device(std::string_view name) {
  NamedDevice device;
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  constexpr std::size_t kMostDigits = 4;
  if (digits < name.size() && name.size() - digits <= kMostDigits)
    device.number = static_cast<DeviceIndex>(std::stoi(std::string(name.substr(digits))));
  std::string letters;
  for (const char letter : name.substr(0, digits))
    letters += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  const auto has = [&](std::string_view part) { return letters.find(part) != std::string::npos; };
  device.kind = has("cpu")                  ? "cpu"
                : has("gpu") || has("cuda") ? "cuda"
                : has("tpu")                ? "tpu"
                                            : "device";
  return device;
}

// The live memory of one profile, as blocks that are there from the start and never freed.
class LiveMemory {
 public:
  LiveMemory(const PprofProfile& profile, std::size_t bytes_column,
             std::optional<std::size_t> count_column, EventSink& sink)
      : profile_(profile), bytes_(bytes_column), count_(count_column), sink_(sink) {}

  // False: nothing is live.
  bool deliver() {
    choose_kind();
    if (kind_.empty()) return false;
    for (const PprofSample& sample : profile_.samples()) add(sample);
    return true;
  }
  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] std::uint64_t left_out_bytes() const { return left_out_bytes_; }
  [[nodiscard]] std::uint64_t unplaced_bytes() const { return unplaced_bytes_; }
  [[nodiscard]] bool has_joined_blocks() const { return has_joined_; }

 private:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
  static constexpr std::uint64_t kMostInAll = std::uint64_t{1} << 62U;
  static constexpr std::uint64_t kMostBlocks = 1'000'000;

  [[nodiscard]] std::uint64_t bytes_of(const PprofSample& sample) const {
    // A forged file may claim that more is live than any machine has.
    return bytes_ < sample.values.size() && sample.values[bytes_] <= kMostBytes
               ? sample.values[bytes_]
               : 0;
  }

  // A recording has one kind of device: the one that holds most, if not only the CPU does.
  void choose_kind() {
    std::map<std::string, std::uint64_t> sums;
    for (const PprofSample& sample : profile_.samples()) {
      const std::string_view device = profile_.label(sample, "device");
      if (!device.empty() && bytes_of(sample) > 0)
        sums[named_device(device).kind] += bytes_of(sample);
      if (device.empty() && bytes_of(sample) > 0) has_unplaced_ = true;
    }
    const auto weight = [](const auto& entry) {
      return std::pair(entry.first != "cpu", entry.second);
    };
    if (!sums.empty()) kind_ = std::ranges::max_element(sums, {}, weight)->first;
    if (sums.empty() && has_unplaced_) kind_ = "device";
  }

  void add(const PprofSample& sample) {
    const std::uint64_t bytes = bytes_of(sample);
    if (bytes == 0) return;
    const std::string_view name = profile_.label(sample, "device");
    const NamedDevice device = name.empty() ? NamedDevice{kind_, 0} : named_device(name);
    if (name.empty()) unplaced_bytes_ += bytes;
    if (device.kind != kind_ || next_address_ > kMostInAll) {
      left_out_bytes_ += bytes;
      return;
    }
    std::uint64_t count = count_ && *count_ < sample.values.size() ? sample.values[*count_] : 1;
    if (count == 0 || count > bytes || count > kMostBlocks - blocks_) {
      has_joined_ |= count > 1;
      count = 1;
    }
    blocks_ = std::min(blocks_ + count, kMostBlocks);
    const StackId stack = profile_.add_stack(sample, sink_);
    for (std::uint64_t index = 0; index < count; ++index)
      add_block(device.number, bytes / count + (index < bytes % count ? 1 : 0), stack);
  }

  // The file has no addresses.
  void add_block(DeviceIndex device, std::uint64_t size, StackId stack) {
    SegmentState segment;
    segment.device = device;
    segment.address = next_address_;
    segment.size_bytes = size;
    segment.stream = sink_.add_stream(0);
    segment.stack = stack;
    const BlockState block{next_address_, size, size, BlockStateKind::active_allocated, stack};
    sink_.add_segment(StateEdge::start, segment, std::span(&block, 1));
    next_address_ += size;
  }

  const PprofProfile& profile_;
  std::size_t bytes_;
  std::optional<std::size_t> count_;
  EventSink& sink_;
  std::string kind_;
  std::uint64_t next_address_ = 1;
  std::uint64_t blocks_ = 0;
  std::uint64_t left_out_bytes_ = 0;
  std::uint64_t unplaced_bytes_ = 0;
  bool has_unplaced_ = false;
  bool has_joined_ = false;
};

std::string profile_limits(const LiveMemory& memory) {
  std::string text =
      "It shows one moment: the peak, lifetimes, reserved memory and what was freed before are "
      "unknown";
  if (memory.unplaced_bytes() > 0)
    text += fmt::format(
        "\n{} bytes, such as compiled code, have no device in it and are counted "
        "with the first",
        memory.unplaced_bytes());
  if (memory.left_out_bytes() > 0)
    text +=
        fmt::format("\n{} bytes of another kind of device are left out", memory.left_out_bytes());
  if (memory.has_joined_blocks())
    text += "\nIt states more buffers than are listed: some are shown as one block";
  return text;
}

}  // namespace

bool looks_like_pprof(std::span<const std::byte> start) {
  // Times and durations may come first; then a short message that begins with its field 1: the type
  // of the samples, or of the period between them.
  constexpr std::size_t kTagInside = 2;
  constexpr std::string_view kTimes = "\x48\x50";
  constexpr std::string_view kTypes = "\x0A\x5A";
  ProtoFields fields(std::string_view(reinterpret_cast<const char*>(start.data()), start.size()));
  std::string_view rest = fields.rest();
  while (!rest.empty() && kTimes.find(rest[0]) != std::string_view::npos) {
    if (!fields.next()) return false;
    rest = fields.rest();
  }
  return rest.size() > kTagInside && kTypes.find(rest[0]) != std::string_view::npos &&
         static_cast<unsigned char>(rest[1]) < 0x20 && rest[kTagInside] == 0x08;
}

Result<std::unique_ptr<JaxProfile>> JaxProfile::open(const std::string& path, Progress) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open_input(path);
  if (!file) return file.error();
  const std::uint64_t size_bytes = file.value()->size_bytes();
  return std::unique_ptr<JaxProfile>(new JaxProfile(std::move(file).value(), size_bytes, path));
}

std::unique_ptr<JaxProfile> JaxProfile::from_bytes(std::span<const std::byte> bytes,
                                                   std::string name) {
  return std::unique_ptr<JaxProfile>(
      new JaxProfile(std::make_unique<BufferSource>(bytes), bytes.size(), std::move(name)));
}

Result<std::string> JaxProfile::read_all() {
  ForeignInput input(*source_, size_bytes_, least_limit_bytes_);
  std::string bytes;
  constexpr std::size_t kAtOnce = std::size_t{1} << 16;
  for (;;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kAtOnce);
    const Result<std::size_t> got =
        input.read(std::as_writable_bytes(std::span(bytes).subspan(before)));
    if (!got) return got.error();
    bytes.resize(before + got.value());
    if (got.value() == 0) break;
  }
  broken_ = input.broken();
  return bytes;
}

Status JaxProfile::deliver(EventSink& sink) {
  constexpr const char* kHowToMake =
      "make one with jax.profiler.save_device_memory_profile(path) while arrays are live";
  const Result<std::string> bytes = read_all();
  if (!bytes) return bytes.error();
  PprofProfile profile;
  const bool is_whole = profile.read(bytes.value());
  const std::string where = fmt::format("{}, byte {}", name_, bytes.value().size());
  if (!profile.has_types())
    return Error{ErrorCode::bad_input, "this is no pprof profile, or it is damaged", where,
                 kHowToMake};
  const std::optional<std::size_t> space = profile.column("space", "bytes");
  if (!space)
    return Error{ErrorCode::bad_input,
                 fmt::format("this pprof profile does not show JAX's device memory, but {}",
                             repaired_utf8(profile.type_names())),
                 where, kHowToMake};
  LiveMemory memory(profile, *space, profile.column("allocations", "count"), sink);
  if (!memory.deliver())
    return Error{ErrorCode::bad_input, "this pprof profile has no memory of any device", where,
                 kHowToMake};
  Origin origin;
  origin.kind = kProfileOfJax;
  origin.device_type = memory.kind();
  origin.has_start = true;
  if (!is_whole || !broken_.empty())
    origin.cut = CutPoint{bytes.value().size(),
                          broken_.empty() ? "the profile ends or is damaged" : broken_};
  origin.facts.emplace_back(kPoolFact, kNotRecorded);
  origin.facts.emplace_back(kLimitsFact, profile_limits(memory));
  sink.set_origin(origin);
  return Done{};
}

}  // namespace gpumemprof
