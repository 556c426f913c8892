// Archive: values ↔ bytes, for the index of a recording. One list of fields serves both ways, and a
// third: the schema, a text that changes with any of the lists.
//
// No struct is copied as it lies in memory, and a list that forgets a field of its struct does not
// compile. The reader trusts nothing: a number must fit its type, a bool is 0 or 1, an enum has one
// of its values, an id refers to something, text is UTF-8, and a list is no longer than the bytes
// that are left.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/utf8.h"
#include "trace/bytes_io.h"

namespace gpumemprof {

// How many values an enum has, counted from 0; index_fields.h says it for each.
template <typename E>
inline constexpr std::size_t kEnumValues = 0;

// What an index refers to, so that no id leads beyond it.
struct IdLimits {
  std::size_t strings = 0;
  std::size_t frames = 0;
  std::size_t stacks = 0;
  std::size_t streams = 0;
  std::size_t pools = 0;

  [[nodiscard]] std::size_t of(StringId /*id*/) const { return strings; }
  [[nodiscard]] std::size_t of(FrameId /*id*/) const { return frames; }
  [[nodiscard]] std::size_t of(StackId /*id*/) const { return stacks; }
};

// Rows that are no Id in their struct.
struct StreamRow {
  std::uint32_t& row;
};
struct PoolRow {
  std::uint32_t& row;
};
// A list of which each field is stored for all rows, then the next: equal things lie together, and
// compress well.
template <typename T>
struct ByColumn {
  std::vector<T>& rows;
};
template <typename T>
ByColumn(std::vector<T>&) -> ByColumn<T>;
// A field that the index does not hold.
template <typename T>
struct LeftOut {
  T& value;
};
template <typename T>
LeftOut(T&) -> LeftOut<T>;

// The number of fields of an aggregate: the most values that it can be made of.
struct AnyField {
  template <typename T>
  operator T() const;
};
template <typename T, typename... Fields>
consteval std::size_t field_count() {
  if constexpr (requires { T{Fields{}..., AnyField{}}; }) {
    return field_count<T, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

class ArchiveWriter {
 public:
  template <typename T, typename... Fields>
  void all(T& /*of*/, Fields&&... values) {
    static_assert(sizeof...(Fields) == field_count<T>(), "a field is missing in the list");
    (put(values), ...);
  }
  template <typename T>
  void put(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      bytes_.byte(value ? 1 : 0);
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(kEnumValues<T> > 0, "say in index_fields.h how many values it has");
      bytes_.byte(static_cast<std::uint8_t>(value));
    } else if constexpr (std::is_same_v<T, double>) {
      bytes_.fixed(value);
    } else if constexpr (std::signed_integral<T>) {
      bytes_.signed_varint(value);
    } else if constexpr (std::unsigned_integral<T>) {
      bytes_.varint(value);
    } else {
      fields(*this, value);
    }
  }
  template <typename Tag>
  void put(Id<Tag>& id) {
    row(id.index);
  }
  void put(StreamRow& stream) { bytes_.varint(stream.row); }
  void put(PoolRow& pool) { row(pool.row); }
  template <typename T>
  void put(LeftOut<T>& /*field*/) {}
  void put(std::string& text) { bytes_.text(text); }
  template <typename T>
  void put(std::vector<T>& values) {
    bytes_.varint(values.size());
    for (T& value : values) put(value);
  }
  template <typename T, std::size_t N>
  void put(std::array<T, N>& values) {
    for (T& value : values) put(value);
  }
  template <typename T>
  void put(std::optional<T>& value) {
    bytes_.byte(value ? 1 : 0);
    if (value) put(*value);
  }
  template <typename A, typename B>
  void put(std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <typename T>
  void put(ByColumn<T>& list) {
    bytes_.varint(list.rows.size());
    columns(*this, list.rows);
  }
  template <typename T, typename... Gets>
  void all_columns(std::vector<T>& rows, Gets... gets) {
    static_assert(sizeof...(Gets) == field_count<T>(), "a field is missing in the list");
    (put_column(rows, gets), ...);
  }
  // What must hold of what was read.
  void require(bool /*holds*/) {}

  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_.span(); }
  void clear() { bytes_.clear(); }

 private:
  template <typename T, typename Get>
  void put_column(std::vector<T>& rows, Get get) {
    for (T& row : rows) {
      auto&& field = get(row);
      put(field);
    }
  }
  // The largest number stands for none.
  void row(std::uint32_t row) { bytes_.varint(static_cast<std::uint32_t>(row + 1U)); }

  trace::OutBytes bytes_;
};

class ArchiveReader {
 public:
  ArchiveReader(std::span<const std::uint8_t> bytes, const IdLimits& limits)
      : in_(bytes), limits_(limits) {}

  template <typename T, typename... Fields>
  void all(T& /*of*/, Fields&&... values) {
    (put(values), ...);
  }
  template <typename T>
  void put(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = in_.below(2) != 0;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(in_.below(kEnumValues<T>));
    } else if constexpr (std::is_same_v<T, double>) {
      value = in_.fixed<double>();
      require(std::isfinite(value));
    } else if constexpr (std::signed_integral<T>) {
      const std::int64_t number = in_.signed_varint();
      require(std::in_range<T>(number));
      value = in_.ok() ? static_cast<T>(number) : T();
    } else if constexpr (std::unsigned_integral<T>) {
      const std::uint64_t number = in_.varint();
      require(std::in_range<T>(number));
      value = in_.ok() ? static_cast<T>(number) : T();
    } else {
      fields(*this, value);
    }
  }
  template <typename Tag>
  void put(Id<Tag>& id) {
    id = Id<Tag>();
    row(id.index, limits_.of(id));
  }
  void put(StreamRow& stream) {
    stream.row = static_cast<std::uint32_t>(in_.below(limits_.streams));
  }
  void put(PoolRow& pool) { row(pool.row, limits_.pools); }
  template <typename T>
  void put(LeftOut<T>& field) {
    field.value = T();
  }
  void put(std::string& text) {
    text = in_.text();
    require(is_valid_utf8(text));
  }
  template <typename T>
  void put(std::vector<T>& values) {
    values.clear();
    // One by one: a wrong number must not ask for much memory.
    for (std::size_t count = in_.count(); count > 0 && in_.ok(); --count)
      put(values.emplace_back());
  }
  template <typename T, std::size_t N>
  void put(std::array<T, N>& values) {
    for (T& value : values) put(value);
  }
  template <typename T>
  void put(std::optional<T>& value) {
    value.reset();
    if (in_.below(2) != 0) put(value.emplace());
  }
  template <typename A, typename B>
  void put(std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <typename T>
  void put(ByColumn<T>& list) {
    // Each field of each row takes a byte or more.
    const std::size_t count = in_.count();
    require(count <= in_.left() / field_count<T>());
    list.rows.assign(in_.ok() ? count : 0, T());
    columns(*this, list.rows);
  }
  template <typename T, typename... Gets>
  void all_columns(std::vector<T>& rows, Gets... gets) {
    (put_column(rows, gets), ...);
  }
  void require(bool holds) {
    if (!holds) in_.fail();
  }

  [[nodiscard]] bool ok() const { return in_.ok(); }
  // Everything was there, and nothing more.
  [[nodiscard]] bool is_whole() const { return in_.is_spent(); }

 private:
  template <typename T, typename Get>
  void put_column(std::vector<T>& rows, Get get) {
    for (T& row : rows) {
      auto&& field = get(row);
      put(field);
    }
  }
  void row(std::uint32_t& row, std::size_t limit) {
    const std::uint64_t code = in_.below(limit + 1);
    row = static_cast<std::uint32_t>(code) - 1U;
  }

  trace::InBytes in_;
  IdLimits limits_;
};

// Which types an index holds, in which order.
class SchemaWriter {
 public:
  template <typename T, typename... Fields>
  void all(T& /*of*/, Fields&&... values) {
    text_ += '{';
    (put(values), ...);
    text_ += '}';
  }
  template <typename T>
  void put(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      text_ += 'b';
    } else if constexpr (std::is_enum_v<T>) {
      text_ += 'e' + std::to_string(kEnumValues<T>);
    } else if constexpr (std::is_same_v<T, double>) {
      text_ += 'd';
    } else if constexpr (std::integral<T>) {
      text_ += (std::signed_integral<T> ? 'i' : 'u') + std::to_string(sizeof(T));
    } else {
      fields(*this, value);
    }
  }
  void put(StringId& /*id*/) { text_ += 'S'; }
  void put(FrameId& /*id*/) { text_ += 'F'; }
  void put(StackId& /*id*/) { text_ += 'K'; }
  void put(StreamRow& /*stream*/) { text_ += 'r'; }
  void put(PoolRow& /*pool*/) { text_ += 'p'; }
  template <typename T>
  void put(LeftOut<T>& /*field*/) {
    text_ += '-';
  }
  void put(std::string& /*text*/) { text_ += 's'; }
  template <typename T>
  void put(std::vector<T>& /*values*/) {
    one<T>('*');
  }
  template <typename T, std::size_t N>
  void put(std::array<T, N>& /*values*/) {
    text_ += std::to_string(N);
    one<T>('x');
  }
  template <typename T>
  void put(std::optional<T>& /*value*/) {
    one<T>('?');
  }
  template <typename A, typename B>
  void put(std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <typename T>
  void put(ByColumn<T>& list) {
    text_ += '|';
    list.rows.assign(1, T());
    columns(*this, list.rows);
  }
  template <typename T, typename... Gets>
  void all_columns(std::vector<T>& rows, Gets... gets) {
    (put_first(rows, gets), ...);
  }
  void require(bool /*holds*/) {}

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <typename T, typename Get>
  void put_first(std::vector<T>& rows, Get get) {
    auto&& field = get(rows.front());
    put(field);
  }
  template <typename T>
  void one(char how) {
    text_ += how;
    T value{};
    put(value);
  }

  std::string text_;
};

}  // namespace gpumemprof
