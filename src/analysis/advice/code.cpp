#include "analysis/advice/code.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

namespace gpumemprof {
namespace {

// A list of modules: "transformer.h" of "transformer.h.0", "transformer.h.1", …
struct ModuleList {
  std::size_t modules = 0;
  std::size_t highest = 0;  // index
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
    ModuleList& list = lists[std::string(dot == std::string_view::npos ? "" : path.substr(0, dot))];
    ++list.modules;
    list.highest = std::max(list.highest, index);
  }
  std::erase_if(lists, [](const auto& entry) {
    return entry.second.modules < 2 || entry.second.highest + 1 != entry.second.modules;
  });
  return lists;
}

// "h[0]" is a name that Python reads; "h.0" is none.
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

// "number < 5" where the first are meant, else "number in {0, 3, 4}".
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

// From outside of the model: no line of its own has to change.
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

// Inside the model's own forward(), of a list whose name is not known.
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

std::optional<std::string> find_block_list(const Store& store, std::size_t blocks) {
  if (blocks == 0) return std::nullopt;
  std::vector<std::string> names;
  std::size_t sum = 0;
  for (const auto& [path, list] : lists_of(store)) {
    if (list.modules == blocks) return as_code(path);
    names.push_back(as_code(path));
    sum += list.modules;
  }
  // An encoder and a decoder, say.
  if (names.size() < 2 || sum != blocks) return std::nullopt;
  std::string code;
  for (const std::string& name : names) code += (code.empty() ? "[*" : ", *") + name;
  return code + "]";
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
  return condition ? blocks_in_forward(*condition) : plain;
}

}  // namespace gpumemprof
