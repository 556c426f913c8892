#include <cstddef>
#include <string_view>

#include "symbols/mangled_grammar.h"

namespace gpumemprof {
namespace {

// The operators by how many operands follow them in an expression.
constexpr std::string_view kUnaryOperators =
    "ad aw az co da de dl gs mm ng nt pp ps sP sZ st sz te ti tw nx ";
constexpr std::string_view kBinaryOperators =
    "aN aS aa an cm dV dv ds eO eo eq ge gt ix lS le ls lt mI mL mi ml ne oR oo or pL pl pm rM rS "
    "rm rs ss ";

bool is_among(std::string_view operators, std::string_view code) {
  for (std::size_t at = 0; at + 3 <= operators.size(); at += 3)
    if (operators.substr(at, 2) == code) return true;
  return false;
}

}  // namespace

PartSize MangledSize::literal() {
  need("L");
  PartSize size = kPart;
  if (take("_Z") || take("Z")) {
    size += encoding();
  } else {
    size += type();
    const std::size_t before = at_;
    while (!at_end() && peek() != 'E') ++at_;
    size += {at_ - before, 0};
  }
  need("E");
  return size;
}

PartSize MangledSize::name_in_expression() {
  take("on");
  PartSize size = unqualified_name();
  if (peek() == 'I') size += template_arguments();
  return size;
}

PartSize MangledSize::expressions_until(std::string_view end) {
  PartSize size = kPart;
  while (!has_failed_ && !take(end)) size += expression();
  return size;
}

PartSize MangledSize::expression() {
  const Nested nested(*this);
  if (has_failed_ || at_end()) {
    fail();
    return kPart;
  }
  if (peek() == 'L') return literal();
  if (peek() == 'T') return template_parameter();
  PartSize size = kPart;
  if (take("sr")) {
    size += type();
    size += name_in_expression();
  } else if (take("sp")) {
    size += expression();
    size = size.times(expansions_);
  } else if (take("fpT")) {
    return size;
  } else if (take("fp") || take("fL")) {
    skip_number();
    if (take("p")) skip_number();
    need("_");
  } else if (is_digit(peek()) || sees("on")) {
    size += name_in_expression();
  } else if (take("il")) {
    size += expressions_until("E");
  } else if (take("tl")) {
    size += type();
    size += expressions_until("E");
  } else {
    size += operation();
  }
  return size;
}

PartSize MangledSize::operation() {
  PartSize size = kPart;
  if (take("cl")) {
    size += expressions_until("E");
  } else if (take("cv")) {
    size += type();
    size += take("_") ? expressions_until("E") : expression();
  } else if (take("dt") || take("pt")) {
    size += expression();
    size += name_in_expression();
  } else if (take("sc") || take("dc") || take("cc") || take("rc")) {
    size += type();
    size += expression();
  } else if (take("st") || take("ti") || take("at")) {
    size += type();
  } else if (take("qu")) {
    for (int operand = 0; operand < 3; ++operand) size += expression();
  } else if (take("nw") || take("na")) {
    size += expressions_until("_");
    size += type();
    if (take("pi")) {
      size += expressions_until("E");
    } else {
      need("E");
    }
  } else if (take("fl") || take("fr")) {
    size += operator_name();
    size += expression();
  } else if (take("fL") || take("fR")) {
    size += operator_name();
    size += expression();
    size += expression();
  } else if (take("tr")) {
    return size;
  } else {
    const std::string_view code = text_.substr(at_, 2);
    const bool is_unary = is_among(kUnaryOperators, code);
    if (!is_unary && !is_among(kBinaryOperators, code)) fail();
    at_ += has_failed_ ? 0 : 2;
    if (code == "pp" || code == "mm") take("_");
    size += expression();
    if (!is_unary) size += expression();
  }
  return size;
}

}  // namespace gpumemprof
