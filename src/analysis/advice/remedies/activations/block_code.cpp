#include "analysis/advice/remedies/activations/block_code.h"

#include <optional>
#include <vector>

#include "analysis/advice/run/block_list.h"

namespace gpumemprof {
namespace {

// "number < 5" for the first five, else "number in {0, 3, 4}".
std::string condition_of(const std::vector<std::uint32_t>& which) {
  if (!which.empty() && which.back() + 1 == which.size())
    return "number < " + std::to_string(which.size());
  std::string text = "number in {";
  for (std::size_t index = 0; index < which.size(); ++index)
    text += (index == 0 ? "" : ", ") + std::to_string(which[index]);
  return text + "}";
}

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

// The modules of these blocks by name: "[model.first, model.last]".
std::optional<std::string> named_blocks(const std::vector<std::string>& modules,
                                        const Change& change) {
  std::vector<std::string> names;
  for (std::uint32_t ordinal = 0; ordinal < modules.size(); ++ordinal) {
    if (change.has_block(ordinal)) names.push_back(module_code(modules[ordinal]));
  }
  if (names.empty() || !are_unique(modules)) return std::nullopt;
  return as_list(names);
}

// From outside the model: none of its own lines have to change.
std::string wrapped_blocks(const std::string& list, const std::optional<std::string>& condition,
                           std::string_view context) {
  std::string code =
      "from functools import partial\n"
      "from torch.utils.checkpoint import checkpoint\n";
  code += context;
  code += condition ? "for number, block in enumerate(" + list + "):\n    if " + *condition + ":\n"
                    : "for block in " + list + ":\n";
  const std::string indent = condition ? "        " : "    ";
  code += indent + "block.forward = partial(checkpoint, block.forward,\n" + indent +
          "                        use_reentrant=False";
  return code + (context.empty() ? ")" : ", context_fn=context)");
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

std::string checkpointing_code(const AdvisedRun& run, const Change& change,
                               std::string_view context, std::string_view plain) {
  const bool is_part = change.blocks && change.blocks->size() < run.blocks_per_pass();
  const std::optional<std::string> condition =
      is_part ? std::optional(condition_of(*change.blocks)) : std::nullopt;
  if (run.block_list()) return wrapped_blocks(*run.block_list(), condition, context);
  if (const auto names = named_blocks(run.block_modules(), change))
    return wrapped_blocks(*names, std::nullopt, context);
  return condition ? blocks_in_forward(*condition) : std::string(plain);
}

}  // namespace gpumemprof
