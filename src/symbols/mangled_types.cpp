#include <algorithm>
#include <cstddef>

#include "symbols/mangled_grammar.h"

namespace gpumemprof {
namespace {

// How far the numbers of parts may differ from those of an older compiler's names.
constexpr std::size_t kPartsApart = 4;

}  // namespace

PartSize MangledSize::type() {
  const Nested nested(*this);
  if (has_failed_ || at_end()) {
    fail();
    return kPart;
  }
  PartSize size = kPart;
  const char first = peek();
  if (first == 'r' || first == 'V' || first == 'K') {
    while (take("r") || take("V") || take("K")) size += kPart;
    size += take("F") ? function_type() : type();
  } else if (take("u")) {
    size += source_name();
    if (peek() == 'I') size += template_arguments();
  } else if (is_lower(first)) {
    ++at_;
    return size;
  } else if (take("F")) {
    size += function_type();
  } else if (take("P") || take("R") || take("O") || take("C") || take("G")) {
    size += type();
  } else if (take("A")) {
    if (is_digit(peek())) {
      const std::size_t before = at_;
      skip_number();
      size += {at_ - before, 0};
    } else if (peek() != '_') {
      size += expression();
    }
    need("_");
    size += type();
  } else if (take("M")) {
    size += type();
    size += type();
  } else if (take("U")) {
    size += source_name();
    if (peek() == 'I') size += template_arguments();
    size += type();
  } else if (first == 'T') {
    size += template_parameter();
    if (peek() == 'I') {
      add_part(size);
      size += template_arguments();
    }
  } else if (first == 'S' && peek(1) != 't') {
    size += substitution();
    if (peek() != 'I') return size;
    size += template_arguments();
  } else if (first == 'D') {
    ++at_;
    return type_after_d();
  } else if (is_digit(first) || first == 'N' || first == 'Z' || first == 'S') {
    size += name();
  } else {
    fail();
  }
  add_part(size);
  return size;
}

PartSize MangledSize::type_after_d() {
  PartSize size = kPart;
  const char kind = peek();
  ++at_;
  switch (kind) {
    case 'T':
    case 't':
      size += expression();
      need("E");
      break;
    case 'p':
      size += type();
      size = size.times(expansions_);
      break;
    case 'v':
      if (peek() == '_') {
        ++at_;
        size += expression();
      } else {
        skip_number();
      }
      need("_");
      size += type();
      break;
    case 'o':
    case 'x':
      size += type();
      break;
    case 'O':
      size += expression();
      need("E");
      size += type();
      break;
    case 'F':
      skip_number();
      if (!take("b") && !take("x")) need("_");
      return size;
    case 'a':
    case 'c':
    case 'd':
    case 'e':
    case 'f':
    case 'h':
    case 'i':
    case 'n':
    case 's':
    case 'u':
      return size;
    default:
      fail();
  }
  add_part(size);
  return size;
}

PartSize MangledSize::function_type() {
  take("Y");
  PartSize size = kPart;
  while (!has_failed_ && !take("E")) {
    if (take("RE") || take("OE")) return size;
    size += type();
  }
  return size;
}

PartSize MangledSize::types_until(std::string_view end) {
  PartSize size;
  while (!has_failed_ && !take(end)) size += type();
  return size;
}

PartSize MangledSize::template_parameter() {
  need("T");
  skip_number();
  need("_");
  return {kAroundPartBytes, 1};
}

PartSize MangledSize::template_arguments(bool is_pack) {
  const Nested nested(*this);
  if (has_failed_) return kPart;
  if (!take("I")) need("J");
  PartSize size = kPart;
  std::uint64_t count = 0;
  while (!has_failed_ && !take("E")) {
    const PartSize argument = template_argument();
    if (!is_pack) arguments_.push_back(argument);
    size += argument;
    ++count;
  }
  if (is_pack) most_in_pack_ = std::max(most_in_pack_, count);
  return size;
}

PartSize MangledSize::template_argument() {
  const Nested nested(*this);
  if (has_failed_) return kPart;
  if (peek() == 'L') return literal();
  if (peek() == 'I' || peek() == 'J') return template_arguments(true);
  if (!take("X")) return type();
  const PartSize size = expression();
  need("E");
  return size;
}

PartSize MangledSize::substitution() {
  need("S");
  if (is_lower(peek())) {
    ++at_;
    PartSize size{kLongestStandardNameBytes, 0};
    while (take("B")) size += source_name();
    return size;
  }
  std::size_t number = 0;
  if (!take("_")) {
    while ((is_digit(peek()) || is_upper(peek())) && number < text_.size()) {
      const char digit = text_[at_++];
      number = (number * 36) +
               static_cast<std::size_t>(is_digit(digit) ? digit - '0' : digit - 'A' + 10);
    }
    ++number;
    need("_");
  }
  if (number >= parts_.size()) fail();
  if (has_failed_) return kPart;
  PartSize size = parts_[std::min(number + kPartsApart, parts_.size() - 1)];
  size += kPart;
  return size;
}

}  // namespace gpumemprof
