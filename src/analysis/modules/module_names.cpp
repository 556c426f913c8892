#include "analysis/modules/module_names.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace gpumemprof {
namespace {

// A forged file could describe any number; a real program has a few thousand.
constexpr std::size_t kMostModules = 50'000;

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    parts.push_back(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return parts;
}

bool has_ancestor(std::string_view path, const std::set<std::string_view>& paths) {
  if (path.empty()) return false;
  if (paths.contains("")) return true;
  for (std::size_t dot = path.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = path.rfind('.', dot - 1)) {
    if (paths.contains(path.substr(0, dot))) return true;
  }
  return false;
}

}  // namespace

ModuleNames::ModuleNames(const Store& store) : store_(store) {
  const std::size_t count = std::min(store.modules().size(), kMostModules);
  for (std::uint32_t row = 0; row < count; ++row) {
    if (!store.text(store.modules()[row].forward_file).empty()) modules_.push_back(row);
  }
  const auto key = [&](std::uint32_t row) {
    const ModuleLabel& module = store.modules()[row];
    return std::pair(module.forward_file, module.forward_line);
  };
  std::stable_sort(modules_.begin(), modules_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  for (std::size_t index = 0; index < modules_.size(); ++index) {
    const auto [file, line] = key(modules_[index]);
    const bool is_same =
        !functions_.empty() && functions_.back().file == file && functions_.back().line == line;
    const std::uint32_t last_line = store.modules()[modules_[index]].forward_last_line;
    if (!is_same) functions_.push_back({file, line, last_line, index, index});
    functions_.back().end = index + 1;
  }
}

// The last function in the file that begins at or above the frame's line, if it extends that far.
const ModuleNames::Function* ModuleNames::function_of(const Frame& frame) const {
  const auto after = std::upper_bound(
      functions_.begin(), functions_.end(), std::pair(frame.file, frame.line),
      [](const auto& at, const Function& other) { return at < std::pair(other.file, other.line); });
  if (after == functions_.begin()) return nullptr;
  const Function& function = *std::prev(after);
  const bool is_inside = function.file == frame.file && frame.line <= function.last_line;
  return is_inside ? &function : nullptr;
}

std::vector<std::uint32_t> ModuleNames::inside(const std::vector<std::uint32_t>& callers,
                                               FrameId frame) const {
  const Function* function = function_of(store_.frame(frame));
  if (function == nullptr) return {};
  std::set<std::string_view> paths;
  for (const std::uint32_t row : callers) paths.insert(store_.text(store_.modules()[row].path));
  std::vector<std::uint32_t> found;
  for (std::size_t index = function->first; index < function->end; ++index) {
    const std::string_view path = store_.text(store_.modules()[modules_[index]].path);
    if (callers.empty() || has_ancestor(path, paths)) found.push_back(modules_[index]);
  }
  return found;
}

std::string ModuleNames::name_of(const std::vector<std::uint32_t>& modules) const {
  if (modules.empty()) return {};
  const ModuleLabel& first = store_.modules()[modules.front()];
  std::vector<std::string> parts;
  for (const std::string_view part : parts_of(store_.text(first.path))) parts.emplace_back(part);
  if (parts.empty()) return std::string(store_.text(first.class_name));
  bool is_open = false;  // they do not all have the same number of parts
  for (const std::uint32_t row : modules) {
    const std::vector<std::string_view> others = parts_of(store_.text(store_.modules()[row].path));
    is_open = is_open || others.size() != parts.size();
    parts.resize(std::min(parts.size(), others.size()));
    for (std::size_t index = 0; index < parts.size(); ++index) {
      if (parts[index] != others[index]) parts[index] = "*";
    }
  }
  std::string name;
  for (const std::string& part : parts) name += (name.empty() ? "" : ".") + part;
  if (is_open) name += name.empty() ? "*" : ".*";
  return name;
}

}  // namespace gpumemprof
