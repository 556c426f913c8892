// SearchWords: the words of a search, matched against an allocation's stacks, source, name
// and tag.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/flat_map.h"
#include "event/memory_source.h"
#include "store/store.h"

namespace gpumemprof {

class SearchWords {
 public:
  // AllocationFilter explains what words mean. The store must outlive it.
  SearchWords(const Store& store, const std::string& text);

  // Whether everything wanted is found, and nothing excluded.
  [[nodiscard]] bool match(StackId stack, StackId forward_stack, std::optional<MemorySource> source,
                           StringId name, StringId tag);

 private:
  static constexpr std::size_t kMostWords = 16;
  enum class Field : std::uint8_t { any, file, function, source, name, tag };
  struct Word {
    std::string text;  // in lower case
    Field field = Field::any;
    bool is_excluded = false;
    std::string file;  // of "file:line": how the path ends
    std::optional<std::uint32_t> line;
  };
  using Mask = std::uint32_t;  // one bit per word

  [[nodiscard]] static std::vector<Word> read(const std::string& text);
  [[nodiscard]] static bool is_in_frame(const Word& word, const Store& store, const Frame& frame);
  void look_at_stacks();
  [[nodiscard]] Mask of_stack(StackId stack) const;
  // `field`: which words search there, besides those that search everywhere.
  [[nodiscard]] Mask of_text(StringId text, Field field, FlatMap<Mask>& known) const;

  const Store& store_;
  std::vector<Word> words_;
  Mask wanted_ = 0;
  Mask excluded_ = 0;
  std::vector<Mask> of_stack_;
  std::array<Mask, kMemorySourceCount> of_source_{};
  FlatMap<Mask> of_name_;
  FlatMap<Mask> of_tag_;
};

}  // namespace gpumemprof
