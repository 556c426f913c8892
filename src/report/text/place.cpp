#include "report/text/place.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "analysis/code/shown_file.h"
#include "base/printable.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

constexpr std::string_view kNoFrame = "no Python stack (backward, C++ or not recorded)";
constexpr std::string_view kNoFrameBriefly = "no Python stack";

// The innermost name: "_ddp_init_helper" of "DistributedDataParallel._ddp_init_helper".
std::string_view last_part(std::string_view function) {
  return function.substr(function.find_last_of('.') + 1);
}

// The end of a name says more than its start.
std::string end_of(std::string_view name, std::size_t width) {
  const std::size_t length = columns(name);
  if (length <= width) return std::string(name);
  std::size_t skipped = length - width + 1;
  while (skipped > 0 && !name.empty()) {
    name.remove_prefix(1);
    while (!name.empty() && (static_cast<unsigned char>(name[0]) & 0xC0U) == 0x80U)
      name.remove_prefix(1);
    --skipped;
  }
  return "…" + std::string(name);
}

// `file` with one folder after the other removed, the full path first: a package keeps its name
// until only the file name is left.
std::vector<std::string> ever_shorter(const std::string& file) {
  std::vector<std::string> forms = {file};
  const std::size_t first = file.find('/');
  const std::size_t last = file.rfind('/');
  if (first == std::string::npos) return forms;
  const bool has_package = first > 0 && !file.starts_with("..");
  if (has_package) {
    for (std::size_t at = file.find('/', first + 1); at != std::string::npos && at <= last;
         at = file.find('/', at + 1))
      forms.push_back(file.substr(0, first + 1) + "…" + file.substr(at));
  }
  if (!has_package || forms.size() == 1) {
    for (std::size_t at = file.find('/', first + 1); at != std::string::npos && at <= last;
         at = file.find('/', at + 1))
      forms.push_back("…" + file.substr(at));
  }
  forms.push_back("…" + file.substr(last));
  return forms;
}

struct ShownFrame {
  std::string file;
  std::string line;  // ":2543"
  std::string function;

  [[nodiscard]] std::string whole() const { return file + line + " " + function; }

  [[nodiscard]] std::string fitted(std::size_t width) const {
    constexpr std::size_t kLeastFunction = 8;
    if (columns(whole()) <= width) return whole();
    const std::size_t place = columns(file + line) + 1;
    const std::string name = "…" + std::string(last_part(function));
    if (columns(name) < columns(function) && place + columns(name) <= width)
      return file + line + " " + name;
    if (place + kLeastFunction <= width) return file + line + " " + end_of(function, width - place);
    const std::string brief = end_of(last_part(function), kLeastFunction);
    for (const std::string& form : ever_shorter(file)) {
      const std::string text = form + line + " " + brief;
      if (columns(text) <= width) return text;
    }
    for (const std::string& form : ever_shorter(file)) {
      if (columns(form + line) <= width) return form + line;
    }
    const std::size_t room = width - std::min(width, columns(line));
    return end_of(file.substr(file.find_last_of('/') + 1), std::max<std::size_t>(room, 1)) + line;
  }
};

ShownFrame shown(const Store& store, FrameId id) {
  const Frame& frame = store.frame(id);
  return {printable(shown_file(store.text(frame.file), store.program_folder())),
          frame.line == 0 ? "" : fmt::format(":{}", frame.line), printable(store.text(frame.name))};
}

}  // namespace

std::string place(const Store& store, FrameId id) {
  return id.is_none() ? std::string(kNoFrame) : shown(store, id).whole();
}

std::string place(const Store& store, FrameId id, std::size_t width) {
  if (!id.is_none()) return shown(store, id).fitted(width);
  return shortened(std::string(kNoFrame.size() <= width ? kNoFrame : kNoFrameBriefly), width);
}

}  // namespace gpumemprof::text
