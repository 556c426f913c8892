// Archive: values ↔ bytes, for the index of a recording. One list of fields serves both ways.
//
// Integers and plain structs are stored as they are in memory: the index belongs to the machine and
// the version that made it, and is made again anywhere else.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace gpumemprof {

class ArchiveWriter {
 public:
  static constexpr bool kReads = false;

  template <typename... T>
  void operator()(T&... values) {
    (put(values), ...);
  }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  template <typename T>
  void put(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      raw(&value, sizeof(T));
    } else {
      fields(*this, value);
    }
  }
  void put(std::string& text) {
    count(text.size());
    raw(text.data(), text.size());
  }
  template <typename T>
  void put(std::vector<T>& values) {
    count(values.size());
    if constexpr (std::is_trivially_copyable_v<T>) {
      raw(values.data(), values.size() * sizeof(T));
    } else {
      for (T& value : values) put(value);
    }
  }
  template <typename T>
  void put(std::optional<T>& value) {
    count(value ? 1 : 0);
    if (value) put(*value);
  }
  template <typename A, typename B>
  void put(std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  void count(std::uint64_t number) { raw(&number, sizeof(number)); }
  void raw(const void* data, std::size_t size) {
    const auto* const first = static_cast<const std::uint8_t*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  std::vector<std::uint8_t> bytes_;
};

class ArchiveReader {
 public:
  static constexpr bool kReads = true;

  explicit ArchiveReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <typename... T>
  void operator()(T&... values) {
    (take(values), ...);
  }
  // Everything was there, and nothing more.
  [[nodiscard]] bool is_whole() const { return is_good_ && rest_.empty(); }

 private:
  template <typename T>
  void take(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      raw(&value, sizeof(T));
    } else {
      fields(*this, value);
    }
  }
  void take(std::string& text) {
    text.resize(count(1));
    raw(text.data(), text.size());
  }
  template <typename T>
  void take(std::vector<T>& values) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      values.resize(count(sizeof(T)));
      raw(values.data(), values.size() * sizeof(T));
    } else {
      values.resize(count(1));
      for (T& value : values) take(value);
    }
  }
  template <typename T>
  void take(std::optional<T>& value) {
    value.reset();
    if (count(0) != 0) take(value.emplace());
  }
  template <typename A, typename B>
  void take(std::pair<A, B>& pair) {
    take(pair.first);
    take(pair.second);
  }
  // How many follow, of at least this many bytes each.
  std::size_t count(std::size_t each) {
    std::uint64_t number = 0;
    raw(&number, sizeof(number));
    if (each > 0 && number > rest_.size() / each) is_good_ = false;
    return is_good_ ? static_cast<std::size_t>(number) : 0;
  }
  void raw(void* data, std::size_t size) {
    if (size > rest_.size()) is_good_ = false;
    if (!is_good_ || size == 0) return;
    std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }

  std::span<const std::uint8_t> rest_;
  bool is_good_ = true;
};

}  // namespace gpumemprof
