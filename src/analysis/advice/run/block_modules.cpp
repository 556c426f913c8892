#include "analysis/advice/run/block_modules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "analysis/modules/module_index.h"

namespace gpumemprof {
namespace {

// The module around this path: "h.0" of "h.0.mlp", "" of "h".
std::string_view path_around(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return path.substr(0, dot == std::string_view::npos ? 0 : dot);
}

// Whether `path` is that module or one inside it.
bool is_inside(std::string_view path, std::string_view module) {
  return module.empty() || path == module ||
         (path.starts_with(module) && path[module.size()] == '.');
}

bool is_list_element(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') + 1);
  return !last.empty() &&
         std::ranges::all_of(last, [](char letter) { return letter >= '0' && letter <= '9'; });
}

// The innermost module that most of a block's allocations were made in. Not all: a block extends to
// where the next one begins, so it may include some of the loop around it.
class BlockPaths {
 public:
  explicit BlockPaths(const RunFacts& facts) : facts_(facts), index_(facts.store()) {}

  [[nodiscard]] std::optional<std::string_view> of(const RepeatedBlock& block) const {
    std::map<std::string_view, std::size_t> rows;  // by module, including those inside it
    std::size_t all = 0;
    const ForwardPass& pass = facts_.passes()[block.pass];
    for (std::uint32_t place = block.first; place < block.end; ++place) {
      const std::uint32_t entry =
          index_.of_event(facts_.record(), facts_.birth(pass.forward[place]));
      if (entry == kNoModule || index_.entries()[entry].path.is_none()) continue;
      ++all;
      for (std::string_view path = facts_.store().text(index_.entries()[entry].path);;
           path = path_around(path)) {
        ++rows[path];
        if (path.empty()) break;
      }
    }
    std::optional<std::string_view> found;
    for (const auto& [path, count] : rows) {
      // Paths that cover most rows are nested, and the map has the outer ones first.
      if (4 * count >= 3 * all) found = path;
    }
    return found;
  }

 private:
  const RunFacts& facts_;
  ModuleIndex index_;
};

// A block may allocate in only one of its modules, "h.0.mlp" of "h.0": of the enclosing modules
// that no other block is in, take the outermost element of a list.
std::string_view block_around(std::string_view path, const std::vector<std::string_view>& all) {
  std::string_view found = path;
  for (std::string_view around = path; !around.empty(); around = path_around(around)) {
    const auto others = std::ranges::count_if(
        all, [&](std::string_view other) { return is_inside(other, around); });
    if (others > 1) break;
    if (is_list_element(around)) found = around;
  }
  return found;
}

}  // namespace

std::vector<std::string> find_block_modules(const RunFacts& facts,
                                            const std::vector<RepeatedBlock>& blocks) {
  if (!facts.store().has_module_numbers()) return {};
  const BlockPaths paths(facts);
  std::vector<std::string_view> inner;  // by ordinal
  for (const RepeatedBlock& block : blocks) {
    const std::optional<std::string_view> path = paths.of(block);
    if (!path || block.ordinal > inner.size()) return {};
    if (block.ordinal == inner.size()) inner.push_back(*path);
    if (inner[block.ordinal] != *path) return {};
  }
  std::vector<std::string> modules;
  modules.reserve(inner.size());
  for (const std::string_view path : inner) modules.emplace_back(block_around(path, inner));
  return modules;
}

}  // namespace gpumemprof
