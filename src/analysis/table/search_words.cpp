#include "analysis/table/search_words.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

namespace gpumemprof {
namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool equals(char a, char b) { return lower(a) == b; }

bool contains(std::string_view text, std::string_view word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end(), equals) != text.end();
}

// "model/train.py" ends with "train.py", "retrain.py" does not.
bool ends_with_path(std::string_view path, std::string_view end) {
  if (end.size() > path.size()) return false;
  const std::size_t start = path.size() - end.size();
  if (start > 0 && path[start - 1] != '/' && path[start - 1] != '\\' && end.front() != '/')
    return false;
  return std::equal(end.begin(), end.end(), path.begin() + static_cast<std::ptrdiff_t>(start),
                    [](char a, char b) { return a == lower(b); });
}

std::string source_text(MemorySource source) { return std::string(memory_source_name(source)); }

}  // namespace

SearchWords::SearchWords(const Store& store, const std::string& text)
    : store_(store), words_(read(text)) {
  for (std::size_t index = 0; index < words_.size(); ++index)
    (words_[index].is_excluded ? excluded_ : wanted_) |= Mask{1} << index;
  if (words_.empty()) return;
  look_at_stacks();
  for (const MemorySource source : kMemorySources) {
    Mask& mask = of_source_[static_cast<std::size_t>(source)];
    for (std::size_t index = 0; index < words_.size(); ++index) {
      const Word& word = words_[index];
      if (word.field != Field::any && word.field != Field::source) continue;
      if (contains(source_text(source), word.text)) mask |= Mask{1} << index;
    }
  }
}

std::vector<SearchWords::Word> SearchWords::read(const std::string& text) {
  constexpr std::pair<std::string_view, Field> kFields[] = {{"file:", Field::file},
                                                            {"function:", Field::function},
                                                            {"source:", Field::source},
                                                            {"name:", Field::name},
                                                            {"tag:", Field::tag}};
  std::string lowered = text;
  std::transform(lowered.begin(), lowered.end(), lowered.begin(), lower);
  std::istringstream stream(lowered);
  std::vector<Word> words;
  for (std::string given; words.size() < kMostWords && stream >> given;) {
    Word word;
    std::string_view rest = given;
    if (rest.size() > 1 && rest.front() == '-') {
      word.is_excluded = true;
      rest.remove_prefix(1);
    }
    for (const auto& [prefix, field] : kFields) {
      if (!rest.starts_with(prefix) || rest.size() == prefix.size()) continue;
      word.field = field;
      rest.remove_prefix(prefix.size());
      break;
    }
    word.text = rest;
    const std::size_t colon = rest.rfind(':');
    if (colon != std::string_view::npos && colon > 0 && colon + 1 < rest.size()) {
      std::uint32_t line = 0;
      const char* end = rest.data() + rest.size();
      const auto [stop, error] = std::from_chars(rest.data() + colon + 1, end, line);
      if (error == std::errc() && stop == end) {
        word.file = rest.substr(0, colon);
        word.line = line;
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

bool SearchWords::is_in_frame(const Word& word, const Store& store, const Frame& frame) {
  const bool is_any = word.field == Field::any;
  const std::string_view file = store.text(frame.file);
  if ((is_any || word.field == Field::function) && contains(store.text(frame.name), word.text))
    return true;
  if (!is_any && word.field != Field::file) return false;
  if (contains(file, word.text)) return true;
  return word.line && frame.line == *word.line && ends_with_path(file, word.file);
}

// Each stack has its own frame's words and its callers', which precede it in the trie.
void SearchWords::look_at_stacks() {
  std::vector<Mask> of_frame;
  of_frame.reserve(store_.frames().size());
  for (const Frame& frame : store_.frames()) {
    Mask found = 0;
    for (std::size_t index = 0; index < words_.size(); ++index) {
      if (is_in_frame(words_[index], store_, frame)) found |= Mask{1} << index;
    }
    of_frame.push_back(found);
  }
  const StackTrie& stacks = store_.stacks();
  of_stack_.reserve(stacks.size());
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const StackId caller = stacks.callers()[index];
    of_stack_.push_back(of_frame[stacks.frames()[index].index] |
                        (caller.is_none() ? 0U : of_stack_[caller.index]));
  }
}

SearchWords::Mask SearchWords::of_stack(StackId stack) const {
  return stack.is_none() ? 0 : of_stack_[stack.index];
}

SearchWords::Mask SearchWords::of_text(StringId text, Field field, FlatMap<Mask>& known) const {
  constexpr Mask kUnset = ~Mask{0};
  if (text.is_none()) return 0;
  Mask& mask = known.find_or_insert(text.index, kUnset);
  if (mask != kUnset) return mask;
  mask = 0;
  for (std::size_t index = 0; index < words_.size(); ++index) {
    const Word& word = words_[index];
    if (word.field != Field::any && word.field != field) continue;
    if (contains(store_.text(text), word.text)) mask |= Mask{1} << index;
  }
  return mask;
}

bool SearchWords::match(StackId stack, StackId forward_stack, std::optional<MemorySource> source,
                        StringId name, StringId tag) {
  if (words_.empty()) return true;
  Mask found = of_stack(stack) | of_stack(forward_stack) | of_text(name, Field::name, of_name_) |
               of_text(tag, Field::tag, of_tag_);
  if (source) found |= of_source_[static_cast<std::size_t>(*source)];
  return (found & wanted_) == wanted_ && (found & excluded_) == 0;
}

}  // namespace gpumemprof
