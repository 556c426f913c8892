#include <algorithm>
#include <cstddef>
#include <string_view>

#include "symbols/mangled_grammar.h"

namespace gpumemprof {

PartSize MangledSize::source_name() {
  std::uint64_t length = 0;
  if (!is_digit(peek())) fail();
  while (is_digit(peek()) && length < text_.size())
    length = (length * 10) + static_cast<std::uint64_t>(text_[at_++] - '0');
  if (length > text_.size() - at_) fail();
  if (has_failed_) return kPart;
  at_ += static_cast<std::size_t>(length);
  last_name_bytes_ = std::max(last_name_bytes_, length);
  PartSize size{length + kAroundPartBytes, 0};
  while (take("B")) size += source_name();
  return size;
}

PartSize MangledSize::encoding() {
  const Nested nested(*this);
  if (has_failed_) return kPart;
  if (peek() == 'T' || peek() == 'G') return special_name();
  const std::size_t arguments_before = arguments_.size();
  PartSize size = name();
  if (arguments_.size() > arguments_before) ++templates_in_encodings_;
  while (!at_end() && peek() != 'E' && peek() != '.') size += type();
  return size;
}

PartSize MangledSize::special_name() {
  PartSize size{2 * kAroundPartBytes, 0};
  const auto offset = [this] {
    if (take("v")) {
      skip_number();
      need("_");
    } else {
      need("h");
    }
    skip_number();
    need("_");
  };
  for (const std::string_view of_type : {"TV", "TT", "TI", "TS"}) {
    if (!take(of_type)) continue;
    size += type();
    return size;
  }
  if (take("TC")) {
    size += type();
    skip_number();
    need("_");
    size += type();
  } else if (sees("Th") || sees("Tv")) {
    ++at_;
    offset();
    size += encoding();
  } else if (take("Tc")) {
    offset();
    offset();
    size += encoding();
  } else if (take("GV") || take("TH") || take("TW")) {
    size += name();
  } else if (take("GR")) {
    size += name();
    while (is_digit(peek()) || is_upper(peek())) ++at_;
    take("_");
  } else {
    fail();
  }
  return size;
}

PartSize MangledSize::name() {
  const Nested nested(*this);
  if (has_failed_) return kPart;
  if (take("N")) return nested_name();
  if (take("Z")) return local_name();
  PartSize size = kPart;
  bool is_part = false;
  if (peek() == 'S' && peek(1) != 't') {
    size += substitution();
    is_part = true;
  } else {
    take("St");
    size += unqualified_name();
  }
  if (peek() != 'I') return size;
  if (!is_part) add_part(size);
  size += template_arguments();
  return size;
}

PartSize MangledSize::nested_name() {
  PartSize size = kPart;
  while (take("r") || take("V") || take("K") || take("R") || take("O")) size += kPart;
  while (!has_failed_ && !take("E")) {
    bool is_part = true;
    if (at_end()) fail();
    if (peek() == 'S' && peek(1) == 't') {
      at_ += 2;
      size += kPart;
      is_part = false;
    } else if (peek() == 'S') {
      size += substitution();
      is_part = false;
    } else if (peek() == 'I') {
      size += template_arguments();
    } else if (peek() == 'T') {
      size += template_parameter();
    } else if (sees("DT") || sees("Dt")) {
      size += type();
      is_part = false;  // its type already was
    } else if (take("M")) {
      continue;
    } else {
      size += unqualified_name();
    }
    if (is_part && peek() != 'E') add_part(size);
  }
  return size;
}

PartSize MangledSize::local_name() {
  PartSize size = encoding();
  need("E");
  if (take("s")) {
    size += kPart;
  } else {
    if (take("d")) {
      skip_number();
      need("_");
    }
    size += name();
  }
  // Which of several of that name.
  if (take("__")) {
    skip_number();
    need("_");
  } else if (peek() == '_' && is_digit(peek(1))) {
    at_ += 2;
  }
  return size;
}

PartSize MangledSize::unqualified_name() {
  const Nested nested(*this);
  if (has_failed_) return kPart;
  PartSize size = kPart;
  if (is_digit(peek())) return source_name();
  if (take("L")) {
    size = source_name();
    if (peek() == '_' && is_digit(peek(1))) {
      ++at_;
      skip_number();
    }
    return size;
  }
  if (is_lower(peek())) {
    size += operator_name();
  } else if ((peek() == 'C' || peek() == 'D') && is_digit(peek(1))) {
    at_ += 2;
    size += {last_name_bytes_, 0};
  } else if (take("CI")) {
    skip_number();
    size += type();
    size += {last_name_bytes_, 0};
  } else if (take("DC")) {
    while (!has_failed_ && !take("E")) size += source_name();
  } else if (take("Ul")) {
    size += types_until("E");
    skip_number();
    need("_");
  } else if (take("Ut")) {
    skip_number();
    need("_");
  } else {
    fail();
  }
  while (take("B")) size += source_name();
  return size;
}

PartSize MangledSize::operator_name() {
  if (take("cv")) return type();
  if (take("li")) return source_name();
  if (!is_lower(peek()) || at_ + 2 > text_.size()) fail();
  if (!has_failed_) at_ += 2;
  return kPart;
}

}  // namespace gpumemprof
