#include "report/view/questions.h"

#include <fmt/core.h>

#include <charconv>
#include <concepts>
#include <limits>
#include <span>
#include <type_traits>

namespace gpumemprof::view {
namespace {

// The values of a parameter, and what the page calls them.
template <typename T>
struct Choices;
template <>
struct Choices<GroupBy> {
  static constexpr std::string_view kType = "GroupBy";
  static constexpr std::span<const GroupBy> kValues = kGroupBys;
  static std::string_view name(GroupBy by) { return group_by_name(by); }
};
template <>
struct Choices<FlameBy> {
  static constexpr std::string_view kType = "FlameBy";
  static constexpr std::span<const FlameBy> kValues = kFlameBys;
  static std::string_view name(FlameBy by) { return flame_by_name(by); }
};
template <>
struct Choices<RangePart> {
  static constexpr std::string_view kType = "RangePart";
  static constexpr std::span<const RangePart> kValues = kRangeParts;
  static std::string_view name(RangePart part) { return range_part_name(part); }
};
template <>
struct Choices<Axis> {
  static constexpr std::string_view kType = "Axis";
  static constexpr Axis kValues[] = {Axis::event, Axis::time};
  static std::string_view name(Axis axis) { return axis == Axis::time ? "time" : "event"; }
};
template <>
struct Choices<AllocationOrder> {
  static constexpr std::string_view kType = "Order";
  static constexpr AllocationOrder kValues[] = {AllocationOrder::size, AllocationOrder::rounding,
                                                AllocationOrder::birth, AllocationOrder::lifetime};
  static std::string_view name(AllocationOrder order) {
    switch (order) {
      case AllocationOrder::size:
        return "size";
      case AllocationOrder::birth:
        return "birth";
      case AllocationOrder::lifetime:
        return "lifetime";
      case AllocationOrder::rounding:
        return "rounding";
    }
    return "";
  }
};
template <>
struct Choices<SortDirection> {
  static constexpr std::string_view kType = "Direction";
  static constexpr SortDirection kValues[] = {SortDirection::down, SortDirection::up};
  static std::string_view name(SortDirection direction) {
    return direction == SortDirection::up ? "up" : "down";
  }
};
template <typename T>
concept Choice = std::is_enum_v<T>;

bool parse(std::string_view given, std::string& value) {
  value = given;
  return true;
}
template <std::integral T>
bool parse(std::string_view given, T& value) {
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  return error == std::errc() && end == given.data() + given.size();
}
template <Choice T>
bool parse(std::string_view given, T& value) {
  for (const T known : Choices<T>::kValues) {
    if (Choices<T>::name(known) != given) continue;
    value = known;
    return true;
  }
  return false;
}
template <typename T>
bool parse(std::string_view given, std::optional<T>& value) {
  return parse(given, value.emplace());
}

// As browsers write it in an address.
std::string written(const std::string& text) {
  constexpr std::string_view kPlain = "-_.~";
  std::string out;
  for (const char letter : text) {
    const bool is_plain = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                          (letter >= 'A' && letter <= 'Z') ||
                          kPlain.find(letter) != std::string_view::npos;
    if (is_plain) {
      out += letter;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    }
  }
  return out;
}
template <std::integral T>
std::string written(T value) {
  return std::to_string(value);
}
template <Choice T>
std::string written(T value) {
  return std::string(Choices<T>::name(value));
}
template <typename T>
std::string written(const std::optional<T>& value) {
  return value ? written(*value) : "";
}

template <typename T>
struct TypeName {
  static std::string_view text() {
    if constexpr (Choice<T>) {
      return Choices<T>::kType;
    } else {
      return std::is_integral_v<T> ? "number" : "string";
    }
  }
};
template <typename T>
struct TypeName<std::optional<T>> : TypeName<T> {};

class Reader {
 public:
  explicit Reader(const std::map<std::string, std::string>& given) : given_(given) {}

  template <typename T>
  void required(const std::string& name, T& value) {
    const auto found = given_.find(name);
    if (found == given_.end() || !parse(found->second, value)) fail(name);
  }
  template <typename T>
  void optional(const std::string& name, T& value) {
    if (given_.contains(name)) required(name, value);
  }
  template <typename T>
  void optional(const std::string& name, T& value, std::type_identity_t<T> most) {
    optional(name, value);
    if (value > most) fail(name);
  }
  // The first parameter that is missing or invalid.
  [[nodiscard]] const std::string& bad() const { return bad_; }

 private:
  void fail(const std::string& name) {
    if (bad_.empty()) bad_ = name;
  }
  const std::map<std::string, std::string>& given_;
  std::string bad_;
};

// Lists what it is given as it would be asked.
class QuestionWriter {
 public:
  template <typename T>
  void required(std::string_view name, const T& value) {
    values.emplace_back(name, written(value));
  }
  template <typename T>
  void optional(std::string_view name, const T& value) {
    required(name, value);
  }
  template <typename T>
  void optional(std::string_view name, const T& value, const std::type_identity_t<T>& /*most*/) {
    required(name, value);
  }
  std::vector<std::pair<std::string_view, std::string>> values;
};

class Describer {
 public:
  template <typename T>
  void required(std::string_view name, const T& /*value*/) {
    parameters.push_back({name, std::string(TypeName<T>::text()), false});
  }
  template <typename T>
  void optional(std::string_view name, const T& value) {
    required(name, value);
    parameters.back().is_optional = true;
  }
  template <typename T>
  void optional(std::string_view name, const T& value, const std::type_identity_t<T>& /*most*/) {
    optional(name, value);
  }
  std::vector<ParameterFacts> parameters;
};

template <typename Asked>
Describer described() {
  const Asked usual{};
  Describer describer;
  Asked::parameters(usual, describer);
  return describer;
}

template <typename Asked>
Result<Question> read(const std::map<std::string, std::string>& parameters) {
  Asked question;
  Reader reader(parameters);
  Asked::parameters(question, reader);
  if (reader.bad().empty()) return Question(std::move(question));
  return Error{ErrorCode::usage, "the parameter '" + reader.bad() + "' is missing or wrong", "",
               "load the page again"};
}

// Calls visit.template operator()<Asked>() for every question.
template <std::size_t... index>
void for_each_question(auto&& visit, std::index_sequence<index...> /*all*/) {
  (visit.template operator()<std::variant_alternative_t<index, Question>>(), ...);
}
constexpr auto kAll = std::make_index_sequence<std::variant_size_v<Question>>();

template <typename T>
ChoiceFacts choice() {
  ChoiceFacts facts{Choices<T>::kType, {}};
  for (const T value : Choices<T>::kValues) facts.names.push_back(Choices<T>::name(value));
  return facts;
}

}  // namespace

Result<Question> read_question(std::string_view name,
                               const std::map<std::string, std::string>& parameters) {
  Result<Question> found =
      Error{ErrorCode::usage, "there is no such question", "", "load the page again"};
  for_each_question(
      [&]<typename Asked>() {
        if (Asked::kName == name) found = read<Asked>(parameters);
      },
      kAll);
  return found;
}

std::string question_text(const Question& question) {
  return std::visit(
      []<typename Asked>(const Asked& asked) {
        QuestionWriter given;
        Asked::parameters(asked, given);
        const Asked unchanged{};
        QuestionWriter usual;
        Asked::parameters(unchanged, usual);
        const std::vector<ParameterFacts> facts = described<Asked>().parameters;
        std::string text(Asked::kName);
        char joint = '?';
        for (std::size_t index = 0; index < facts.size(); ++index) {
          if (facts[index].is_optional && given.values[index] == usual.values[index]) continue;
          text += fmt::format("{}{}={}", joint, facts[index].name, given.values[index].second);
          joint = '&';
        }
        return text;
      },
      question);
}

std::vector<QuestionFacts> question_table() {
  std::vector<QuestionFacts> table;
  for_each_question(
      [&]<typename Asked>() {
        table.push_back({Asked::kName, Asked::kAnswer, described<Asked>().parameters});
      },
      kAll);
  return table;
}

std::vector<ChoiceFacts> choice_table() {
  return {choice<GroupBy>(),         choice<FlameBy>(),       choice<Axis>(),
          choice<AllocationOrder>(), choice<SortDirection>(), choice<RangePart>()};
}

}  // namespace gpumemprof::view
