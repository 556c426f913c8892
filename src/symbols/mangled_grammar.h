// MangledSize: reads a mangled name by the grammar of the Itanium ABI, and adds up how long its
// parts become.
//
// Whatever may be longer in one compiler than in another counts as the longer. A name that is not
// understood ends the reading. The functions are named after the grammar's rules.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace gpumemprof {

inline constexpr std::uint64_t kEndlessBytes = std::uint64_t{1} << 40;
// Brackets, commas, qualifiers and the words of the language around one part of a name.
inline constexpr std::uint64_t kAroundPartBytes = 24;

inline std::uint64_t at_most_endless(std::uint64_t bytes) { return std::min(bytes, kEndlessBytes); }

// The length of a part: its own text, and how often it has the text of an argument of a template,
// which depends on where the part is shown.
struct PartSize {
  std::uint64_t text = 0;
  std::uint64_t arguments = 0;

  PartSize& operator+=(const PartSize& other) {
    text = at_most_endless(text + other.text);
    arguments = at_most_endless(arguments + other.arguments);
    return *this;
  }
  [[nodiscard]] PartSize times(std::uint64_t count) const {
    const auto product = [count](std::uint64_t one) {
      return one > kEndlessBytes / count ? kEndlessBytes : one * count;
    };
    return {product(text), product(arguments)};
  }
  [[nodiscard]] PartSize or_larger(const PartSize& other) const {
    return {std::max(text, other.text), std::max(arguments, other.arguments)};
  }
};

inline constexpr PartSize kPart{kAroundPartBytes, 0};

class MangledSize {
 public:
  // `most_in_pack`: as many arguments as the longest pack has, so that often a pattern is shown.
  MangledSize(std::string_view mangled, std::uint64_t most_in_pack)
      : text_(mangled), expansions_(std::max<std::uint64_t>(most_in_pack, 1)) {}

  [[nodiscard]] bool is_understood() const { return !has_failed_; }
  [[nodiscard]] std::uint64_t most_in_pack() const { return most_in_pack_; }

  std::uint64_t whole();

 private:
  static constexpr int kMostNested = 400;
  static constexpr std::uint64_t kLongestStandardNameBytes = 96;

  // Counts how deep the grammar is nested: a forged name must not exhaust the stack.
  class Nested {
   public:
    explicit Nested(MangledSize& size) : size_(size) {
      if (++size_.depth_ > kMostNested) size_.fail();
    }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --size_.depth_; }

   private:
    MangledSize& size_;
  };

  void fail() {
    has_failed_ = true;
    at_ = text_.size();
  }
  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  [[nodiscard]] bool sees(std::string_view code) const {
    return text_.substr(std::min(at_, text_.size())).starts_with(code);
  }
  bool take(std::string_view code) {
    if (!sees(code)) return false;
    at_ += code.size();
    return true;
  }
  void need(std::string_view code) {
    if (!take(code)) fail();
  }
  static bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
  static bool is_lower(char letter) { return letter >= 'a' && letter <= 'z'; }
  static bool is_upper(char letter) { return letter >= 'A' && letter <= 'Z'; }

  void add_part(const PartSize& size) {
    parts_.push_back(parts_.empty() ? size : size.or_larger(parts_.back()));
  }
  void skip_number() {
    take("n");
    while (is_digit(peek())) ++at_;
  }
  PartSize source_name();
  PartSize encoding();
  PartSize special_name();
  PartSize name();
  PartSize nested_name();
  PartSize local_name();
  PartSize unqualified_name();
  PartSize operator_name();
  PartSize type();
  PartSize type_after_d();
  PartSize function_type();
  PartSize types_until(std::string_view end);
  PartSize template_parameter();
  PartSize template_arguments(bool is_pack = false);
  PartSize template_argument();
  PartSize substitution();
  PartSize literal();
  PartSize expression();
  PartSize operation();
  PartSize expressions_until(std::string_view end);
  PartSize name_in_expression();

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool has_failed_ = false;
  std::uint64_t expansions_;
  std::uint64_t most_in_pack_ = 0;
  int templates_in_encodings_ = 0;
  std::uint64_t last_name_bytes_ = kLongestStandardNameBytes;
  std::vector<PartSize> parts_;      // what the name can refer to: the largest up to each
  std::vector<PartSize> arguments_;  // of templates
};

}  // namespace gpumemprof
