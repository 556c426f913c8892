#include "report/perfetto/interned.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <ranges>

#include "analysis/code/shown_file.h"
#include "base/printable.h"

namespace gpumemprof {
namespace {

namespace interned_data = perfetto_fields::interned_data;
using perfetto_fields::Tag;

// The one module that all frames belong to: readers drop a frame without one.
constexpr std::uint64_t kMapping = 1;
// Texts of stacks are numbered apart, from here on, so that they need not be kept to be found.
constexpr std::uint64_t kFirstStackText = std::uint64_t{1} << 32U;
// As deep as Python lets a program go, unless it asks for more.
constexpr std::size_t kMostFramesInText = 1000;
constexpr std::string_view kNoStack = "[no stack]";
constexpr std::string_view kBackward = "[backward]";

}  // namespace

std::uint64_t InternedData::text(Tag kind, std::string_view value) {
  std::unordered_map<std::string, std::uint64_t>& known = texts_[kind];
  key_.assign(value);
  const auto [place, is_new] = known.try_emplace(key_, known.size() + 1);
  if (is_new) {
    protozero::pbf_writer data(pending_);
    protozero::pbf_writer one(data, kind);
    one.add_uint64(1, place->second);
    one.add_bytes(2, value.data(), value.size());
  }
  return place->second;
}

std::uint64_t InternedData::stack_text(StackId stack, bool is_backward) {
  const std::uint64_t key =
      stack.is_none() ? 0 : (std::uint64_t{stack.index} + 1) << 1U | (is_backward ? 1 : 0);
  const auto [place, is_new] =
      stack_texts_.try_emplace(key, kFirstStackText + stack_texts_.size() + 1);
  if (is_new) {
    const std::string line = stack_line(stack, is_backward);
    protozero::pbf_writer data(pending_);
    protozero::pbf_writer one(data, interned_data::kNoteTexts);
    one.add_uint64(1, place->second);
    one.add_bytes(2, line.data(), line.size());
  }
  return place->second;
}

std::uint64_t InternedData::callstack_below(std::string_view root, StackId stack,
                                            bool is_backward) {
  std::vector<std::uint64_t> frames = frames_of(stack, is_backward);
  frames.insert(frames.begin(), named_frame(root));
  protozero::pbf_writer data(pending_);
  protozero::pbf_writer one(data, interned_data::kCallstacks);
  one.add_uint64(1, next_stack_);
  for (const std::uint64_t frame : frames) one.add_uint64(2, frame);
  return next_stack_++;
}

std::vector<std::uint64_t> InternedData::frames_of(StackId stack, bool is_backward) {
  write_mapping();
  if (stack.is_none()) return {named_frame(kNoStack)};
  std::vector<std::uint64_t> frames;
  const std::vector<FrameId> inner_first = store_.stacks().frames_of(stack);
  for (const FrameId frame : inner_first | std::views::reverse)
    frames.push_back(frame_number(frame));
  if (is_backward) frames.push_back(named_frame(kBackward));
  return frames;
}

std::string InternedData::stack_line(StackId stack, bool is_backward) const {
  if (stack.is_none()) return std::string(kNoStack);
  std::string line(is_backward ? kBackward : "");
  const std::vector<FrameId> inner_first = store_.stacks().frames_of(stack);
  const std::size_t shown = std::min(inner_first.size(), kMostFramesInText);
  for (std::size_t index = 0; index < shown; ++index) {
    if (!line.empty()) line += " < ";
    line += shown_frame(inner_first[index]);
  }
  if (shown < inner_first.size())
    line += " < ... " + std::to_string(inner_first.size() - shown) + " more";
  return line;
}

void InternedData::write_mapping() {
  if (has_mapping_) return;
  has_mapping_ = true;
  const std::uint64_t path = text(interned_data::kMappingPaths, "python");
  const std::uint64_t build = text(interned_data::kBuildIds, "gpumemprof");
  protozero::pbf_writer data(pending_);
  protozero::pbf_writer mapping(data, interned_data::kMappings);
  mapping.add_uint64(1, kMapping);
  mapping.add_uint64(2, build);
  mapping.add_uint64(7, path);
}

std::string InternedData::shown_frame(FrameId id) const {
  const Frame& frame = store_.frame(id);
  const std::string file = printable(shown_file(store_.text(frame.file), store_.program_folder()));
  std::string name = printable(store_.text(frame.name));
  if (!file.empty()) name += " (" + file + ":" + std::to_string(frame.line) + ")";
  return name;
}

std::uint64_t InternedData::frame_number(FrameId id) {
  const auto [place, is_new] = frames_.try_emplace(id.index, next_frame_);
  if (!is_new) return place->second;
  const Frame& frame = store_.frame(id);
  // The flame graph of the UI shows the function alone, so the line is part of its name.
  write_frame(shown_frame(id),
              printable(shown_file(store_.text(frame.file), store_.program_folder())), frame.line);
  return place->second;
}

std::uint64_t InternedData::named_frame(std::string_view name) {
  const auto [place, is_new] = named_frames_.try_emplace(std::string(name), next_frame_);
  if (is_new) write_frame(std::string(name), "", 0);
  return place->second;
}

void InternedData::write_frame(const std::string& name, const std::string& file,
                               std::uint32_t line) {
  const std::uint64_t function = text(interned_data::kFunctionNames, name);
  const std::uint64_t path = file.empty() ? 0 : text(interned_data::kSourcePaths, file);
  protozero::pbf_writer data(pending_);
  protozero::pbf_writer one(data, interned_data::kFrames);
  one.add_uint64(1, next_frame_);
  one.add_uint64(2, function);
  one.add_uint64(3, kMapping);
  // Readers take frames of one module and address for the same frame.
  one.add_uint64(4, next_frame_);
  if (path != 0) one.add_uint64(5, path);
  if (line != 0) one.add_uint32(6, line);
  ++next_frame_;
}

}  // namespace gpumemprof
