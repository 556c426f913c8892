#include "analysis/advice/run/block_list.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace gpumemprof {
std::string module_code(std::string_view path) {
  std::string code = "model";
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    const bool is_index = std::all_of(part.begin(), part.end(),
                                      [](char letter) { return letter >= '0' && letter <= '9'; });
    code += is_index ? "[" + std::string(part) + "]" : "." + std::string(part);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return code;
}

bool are_unique(const std::vector<std::string>& modules) {
  return std::set<std::string>(modules.begin(), modules.end()).size() == modules.size();
}

namespace {

// A list of modules: "transformer.h" of "transformer.h.0", "transformer.h.1", …
struct ModuleList {
  std::set<std::size_t> indexes;  // a model that was created again has the same ones
  [[nodiscard]] std::size_t size() const { return indexes.size(); }
  [[nodiscard]] bool is_whole() const { return size() >= 2 && *indexes.rbegin() + 1 == size(); }
};

std::map<std::string, ModuleList> lists_of(const Store& store) {
  std::map<std::string, ModuleList> lists;
  for (const ModuleLabel& module : store.modules()) {
    const std::string_view path = store.text(module.path);
    const std::size_t dot = path.rfind('.');
    const std::string_view last = dot == std::string_view::npos ? path : path.substr(dot + 1);
    std::size_t index = 0;
    const auto parsed = std::from_chars(last.data(), last.data() + last.size(), index);
    if (last.empty() || parsed.ptr != last.data() + last.size()) continue;
    lists[std::string(dot == std::string_view::npos ? "" : path.substr(0, dot))].indexes.insert(
        index);
  }
  std::erase_if(lists, [](const auto& entry) { return !entry.second.is_whole(); });
  return lists;
}

// The lists that together consist of these modules, in order; empty if there are none such.
std::vector<std::string> lists_run(const Store& store, const std::vector<std::string>& modules) {
  const std::map<std::string, ModuleList> lists = lists_of(store);
  std::vector<std::string> found;
  for (std::size_t at = 0; at < modules.size();) {
    const std::string& path = modules[at];
    const std::size_t dot = path.rfind('.');
    const auto list = lists.find(dot == std::string::npos ? "" : path.substr(0, dot));
    if (list == lists.end() || list->second.size() > modules.size() - at) return {};
    const std::string before = list->first.empty() ? "" : list->first + ".";
    for (std::size_t index = 0; index < list->second.size(); ++index) {
      if (modules[at + index] != before + std::to_string(index)) return {};
    }
    found.push_back(module_code(list->first));
    at += list->second.size();
  }
  return found;
}

// "[*model.encoder, *model.decoder]"; a single list stays as it is.
std::string one_list(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  std::string code;
  for (const std::string& name : names) code += (code.empty() ? "[*" : ", *") + name;
  return code + "]";
}

}  // namespace

std::optional<std::string> find_block_list(const Store& store, std::size_t blocks,
                                           const std::vector<std::string>& modules) {
  if (blocks == 0) return std::nullopt;
  if (!modules.empty()) {
    if (!are_unique(modules)) return std::nullopt;
    const std::vector<std::string> lists = lists_run(store, modules);
    return lists.empty() ? std::nullopt : std::optional(one_list(lists));
  }
  std::vector<std::string> names;
  std::size_t sum = 0;
  for (const auto& [path, list] : lists_of(store)) {
    if (list.size() == blocks) return module_code(path);
    names.push_back(module_code(path));
    sum += list.size();
  }
  // An encoder and a decoder, say.
  if (names.size() < 2 || sum != blocks) return std::nullopt;
  return one_list(names);
}

}  // namespace gpumemprof
