// ChangedFields: an archive (index/archive.h) that neither reads nor writes, but changes some of
// the numbers, texts and lists of a value into others that its types allow.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "index/index_fields.h"
#include "verbs/choices.h"
#include "verbs/text_mutation.h"

namespace gpumemprof::fuzz {

class ChangedFields {
 public:
  // Each field is changed with a chance of 1 in `chances`; 0: none is.
  ChangedFields(Choices& choices, std::uint64_t chances) : choices_(choices), chances_(chances) {
    skip();
  }

  template <typename T, typename... Fields>
  void all(T& /*of*/, Fields&&... values) {
    (put(values), ...);
  }
  template <typename T>
  void put(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (is_next()) value = !value;
    } else if constexpr (std::is_enum_v<T>) {
      if (is_next()) value = static_cast<T>(choices_.below(kEnumValues<T>));
    } else if constexpr (std::is_same_v<T, double>) {
      constexpr double kOdd[] = {0, -1, 0.5, 1e308, -1e308, 5e-324};
      if (is_next()) value = kOdd[choices_.below(std::size(kOdd))];
    } else if constexpr (std::integral<T>) {
      if (is_next())
        value = static_cast<T>(odd_number(choices_, static_cast<std::uint64_t>(value)));
    } else {
      fields(*this, value);
    }
  }
  template <typename Tag>
  void put(Id<Tag>& id) {
    if (is_next()) row(id.index);
  }
  void put(StreamRow& stream) {
    if (is_next()) row(stream.row);
  }
  void put(PoolRow& pool) {
    if (is_next()) row(pool.row);
  }
  template <typename T>
  void put(LeftOut<T>& /*field*/) {}
  void put(std::string& text) {
    if (is_next()) change_text(text, choices_);
  }
  template <typename T>
  void put(std::vector<T>& values) {
    change_length(values);
    for (T& value : values) put(value);
  }
  template <typename T, std::size_t N>
  void put(std::array<T, N>& values) {
    for (T& value : values) put(value);
  }
  template <typename T>
  void put(std::optional<T>& value) {
    if (is_next()) value = value ? std::nullopt : std::optional<T>(T());
    if (value) put(*value);
  }
  template <typename A, typename B>
  void put(std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <typename T>
  void put(ByColumn<T>& list) {
    change_length(list.rows);
    columns(*this, list.rows);
  }
  template <typename T, typename... Gets>
  void all_columns(std::vector<T>& rows, Gets... gets) {
    (put_column(rows, gets), ...);
  }
  void require(bool /*holds*/) {}

 private:
  template <typename T, typename Get>
  void put_column(std::vector<T>& rows, Get get) {
    for (T& row : rows) {
      auto&& field = get(row);
      put(field);
    }
  }
  template <typename T>
  void change_length(std::vector<T>& values) {
    if (!is_next()) return;
    const auto at = [&] {
      return values.begin() + static_cast<std::ptrdiff_t>(choices_.below(values.size()));
    };
    switch (choices_.below(4)) {
      case 0:
        if (!values.empty()) values.erase(at());
        break;
      case 1:
        if (!values.empty()) values.insert(at(), T(*at()));
        break;
      case 2:
        if (!values.empty()) std::swap(*at(), *at());
        break;
      default:
        values.resize(choices_.below(values.size() + 1));
    }
  }
  void row(std::uint32_t& row) {
    row = static_cast<std::uint32_t>(choices_.one_in(3) ? odd_number(choices_, row)
                                                        : choices_.below(64));
  }

  // Choosing how far the next change is, and not whether each field is one, costs little.
  bool is_next() {
    if (left_ > 0) --left_;
    if (left_ > 0 || chances_ == 0) return false;
    skip();
    return true;
  }
  void skip() { left_ = 1 + (chances_ < 2 ? 0 : choices_.number() % (2 * chances_)); }

  Choices& choices_;
  std::uint64_t chances_;
  std::uint64_t left_ = 0;
};

}  // namespace gpumemprof::fuzz
