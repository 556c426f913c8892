#include "analysis/advice/remedies/activations/block_code.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <vector>

namespace gpumemprof {
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

// "h[0]" is valid Python; "h.0" is not.
std::string as_code(std::string_view path) {
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

// "number < 5" for the first five, else "number in {0, 3, 4}".
std::string condition_of(const std::vector<std::uint32_t>& which) {
  if (!which.empty() && which.back() + 1 == which.size())
    return "number < " + std::to_string(which.size());
  std::string text = "number in {";
  for (std::size_t index = 0; index < which.size(); ++index)
    text += (index == 0 ? "" : ", ") + std::to_string(which[index]);
  return text + "}";
}

constexpr std::string_view kSelectiveContext =
    "from torch.utils.checkpoint import create_selective_checkpoint_contexts\n"
    "aten = torch.ops.aten\n"
    "kept = [aten.mm.default, aten.addmm.default, aten.bmm.default,\n"
    "        aten.convolution.default,\n"
    "        aten._scaled_dot_product_flash_attention.default,\n"
    "        aten._scaled_dot_product_efficient_attention.default]\n"
    "context = partial(create_selective_checkpoint_contexts, kept)\n";

// "[a, b]", one per line if there are many.
std::string as_list(const std::vector<std::string>& names) {
  constexpr std::size_t kWidest = 60;
  std::string line;
  std::string lines;
  for (const std::string& name : names) {
    line += (line.empty() ? "" : ", ") + name;
    lines += "    " + name + ",\n";
  }
  return line.size() <= kWidest ? "[" + line + "]" : "[\n" + lines + "]";
}

// False for a module that runs several times, or modules of several models: a wrapped forward()
// could not distinguish the blocks.
bool are_unique(const std::vector<std::string>& modules) {
  return std::set<std::string>(modules.begin(), modules.end()).size() == modules.size();
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
    found.push_back(as_code(list->first));
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

// The modules of these blocks by name: "[model.first, model.last]".
std::optional<std::string> named_blocks(const std::vector<std::string>& modules,
                                        const Change& change) {
  std::vector<std::string> names;
  for (std::uint32_t ordinal = 0; ordinal < modules.size(); ++ordinal) {
    if (change.recomputes(ordinal)) names.push_back(as_code(modules[ordinal]));
  }
  if (names.empty() || !are_unique(modules)) return std::nullopt;
  return as_list(names);
}

// From outside the model: none of its own lines have to change.
std::string wrapped_blocks(const std::string& list, const std::optional<std::string>& condition,
                           bool is_selective) {
  std::string code =
      "from functools import partial\n"
      "from torch.utils.checkpoint import checkpoint\n";
  if (is_selective) code += kSelectiveContext;
  code += condition ? "for number, block in enumerate(" + list + "):\n    if " + *condition + ":\n"
                    : "for block in " + list + ":\n";
  const std::string indent = condition ? "        " : "    ";
  code += indent + "block.forward = partial(checkpoint, block.forward,\n" + indent +
          "                        use_reentrant=False";
  return code + (is_selective ? ", context_fn=context)" : ")");
}

// Inside the model's own forward(), for a list whose name is not known.
std::string blocks_in_forward(const std::string& condition) {
  return "from torch.utils.checkpoint import checkpoint\n"
         "for number, block in enumerate(self.blocks):\n"
         "    if " +
         condition +
         ":\n"
         "        x = checkpoint(block, x, use_reentrant=False)\n"
         "    else:\n"
         "        x = block(x)";
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
    if (list.size() == blocks) return as_code(path);
    names.push_back(as_code(path));
    sum += list.size();
  }
  // An encoder and a decoder, say.
  if (names.size() < 2 || sum != blocks) return std::nullopt;
  return one_list(names);
}

std::string code_of(const Advisor& advisor, const Change& change, RemedyId id) {
  const bool is_selective = id == RemedyId::checkpointing_selective;
  std::string plain(facts_of(id).how);
  if (id != RemedyId::checkpointing && !is_selective) return plain;
  const bool is_part =
      !is_selective && change.blocks && change.blocks->size() < advisor.blocks_per_pass();
  const std::optional<std::string> condition =
      is_part ? std::optional(condition_of(*change.blocks)) : std::nullopt;
  if (advisor.block_list()) return wrapped_blocks(*advisor.block_list(), condition, is_selective);
  if (const auto names = named_blocks(advisor.block_modules(), change))
    return wrapped_blocks(*names, std::nullopt, is_selective);
  return condition ? blocks_in_forward(*condition) : plain;
}

}  // namespace gpumemprof
