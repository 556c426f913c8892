#include "symbols/mangled_size.h"

#include <algorithm>
#include <cstddef>

#include "symbols/mangled_grammar.h"

namespace gpumemprof {
namespace {

// A name with unknown syntax and so many references is still short, however they are nested.
constexpr int kFewReferences = 8;
// Templates are defined inside functions of other templates a few times at most.
constexpr int kMostScopesInName = 24;

std::uint64_t shown(const PartSize& size, std::uint64_t argument_bytes) {
  PartSize all{size.text, 0};
  if (size.arguments > 0) all += PartSize{argument_bytes, 0}.times(size.arguments);
  return all.text;
}

// With k references, and each at most as long as everything before it, a name becomes 2^k times as
// long.
int count_references(std::string_view mangled) {
  int count = 0;
  for (std::size_t at = 0; at + 1 < mangled.size(); ++at) {
    const std::string_view code = mangled.substr(at, 2);
    const char next = code[1];
    const bool may_be_number =
        next == '_' || (next >= '0' && next <= '9') || (next >= 'A' && next <= 'Z');
    if ((code[0] == 'S' || code[0] == 'T') && may_be_number) ++count;
    if (code == "Dp" || code == "sp") return kFewReferences + 1;
  }
  return count;
}

}  // namespace

std::uint64_t MangledSize::whole() {
  PartSize size = encoding();
  // What a compiler appends to copies of a function.
  size += {2 * (text_.size() - at_) + kAroundPartBytes, 0};
  if (!at_end() && peek() != '.') fail();
  std::uint64_t longest = 0;
  // An argument of an inner function may have those of the outer one.
  for (int scope = 0; scope <= kMostScopesInName; ++scope) {
    std::uint64_t longer = 0;
    for (const PartSize& argument : arguments_) longer = std::max(longer, shown(argument, longest));
    if (longer == longest || scope > templates_in_encodings_) return shown(size, longest);
    longest = longer;
  }
  return kEndlessBytes;
}

std::uint64_t most_demangled_bytes(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return mangled.size();
  mangled.remove_prefix(2);
  MangledSize first(mangled, 1);
  std::uint64_t size = first.whole();
  if (first.is_understood() && first.most_in_pack() > 1) {
    // A pattern may come before the pack that it is repeated for.
    MangledSize second(mangled, first.most_in_pack());
    size = second.whole();
  }
  if (first.is_understood()) return at_most_endless(size);
  return count_references(mangled) <= kFewReferences ? mangled.size() << kFewReferences
                                                     : kEndlessBytes;
}

}  // namespace gpumemprof
