// OutBytes and InBytes: numbers and strings to bytes and back.
//
// A varint has seven bits per byte, lowest first; the top bit means that more follow. A signed
// number is zigzag-encoded first (0, −1, 1, −2 …), so that small ones stay short. InBytes never
// reads past its end: after a read that would, ok() is false and every further read gives 0.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace gpumemprof::trace {

static_assert(std::endian::native == std::endian::little,
              "numbers are copied as they lie in memory");

inline constexpr std::size_t kMaxVarintBytes = 10;

template <typename T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
std::uint8_t* put_fixed(std::uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof(T));
  return at + sizeof(T);
}

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

inline std::uint8_t* put_varint(std::uint8_t* at, std::uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *at++ = static_cast<std::uint8_t>(value);
  return at;
}

class OutBytes {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const std::uint8_t> span() const { return {data_.get(), size_}; }
  void clear() { size_ = 0; }

  // Where the next bytes go, with room for `more` of them; call end_at() with where they end.
  std::uint8_t* room(std::size_t more) {
    if (capacity_ - size_ < more) grow(size_ + more);
    return data_.get() + size_;
  }
  void end_at(const std::uint8_t* end) { size_ = static_cast<std::size_t>(end - data_.get()); }

  void byte(std::uint8_t value) {
    *room(1) = value;
    ++size_;
  }
  void varint(std::uint64_t value) { end_at(put_varint(room(kMaxVarintBytes), value)); }
  void signed_varint(std::int64_t value) { varint(zigzag(value)); }
  template <typename T>
  void fixed(T value) {
    end_at(put_fixed(room(sizeof(T)), value));
  }
  void bytes(std::span<const std::uint8_t> piece) {
    if (piece.empty()) return;
    std::memcpy(room(piece.size()), piece.data(), piece.size());
    size_ += piece.size();
  }
  void text(std::string_view value) {
    varint(value.size());
    if (value.empty()) return;
    std::memcpy(room(value.size()), value.data(), value.size());
    size_ += value.size();
  }

 private:
  void grow(std::size_t needed) {
    std::size_t capacity = capacity_ * 2 + 64;
    if (capacity < needed) capacity = needed;
    std::unique_ptr<std::uint8_t[]> data(new std::uint8_t[capacity]);
    if (size_ != 0) std::memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

class InBytes {
 public:
  InBytes() = default;
  explicit InBytes(std::span<const std::uint8_t> bytes)
      : at_(bytes.data()), end_(at_ + bytes.size()) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  [[nodiscard]] bool is_spent() const { return ok() && at_ == end_; }
  void fail() {
    failed_ = true;
    at_ = end_;
  }

  std::uint8_t byte() {
    if (at_ == end_) [[unlikely]] {
      fail();
      return 0;
    }
    return *at_++;
  }
  std::uint64_t varint() {
    if (at_ != end_ && *at_ < 0x80) [[likely]]
      return *at_++;
    return long_varint();
  }
  std::int64_t signed_varint() { return unzigzag(varint()); }
  // A number that must be less than `limit`.
  std::uint64_t below(std::uint64_t limit) {
    const std::uint64_t value = varint();
    if (value < limit) [[likely]]
      return value;
    fail();
    return 0;
  }
  // How many records follow; each takes at least one byte, so that a wrong count cannot request
  // much memory.
  std::size_t count() {
    const std::uint64_t value = varint();
    if (value <= left()) return static_cast<std::size_t>(value);
    fail();
    return 0;
  }
  template <typename T>
  T fixed() {
    if (left() < sizeof(T)) {
      fail();
      return T{};
    }
    const T value = load<T>(at_);
    at_ += sizeof(T);
    return value;
  }
  std::span<const std::uint8_t> bytes(std::uint64_t size) {
    if (size > left()) {
      fail();
      return {};
    }
    const std::span<const std::uint8_t> piece(at_, static_cast<std::size_t>(size));
    at_ += size;
    return piece;
  }
  std::string_view text() {
    const std::span<const std::uint8_t> piece = bytes(varint());
    return {reinterpret_cast<const char*>(piece.data()), piece.size()};
  }

 private:
  std::uint64_t long_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const std::uint64_t bits = *at_++;
      if (shift == 63 && bits > 1) break;  // more than 64 bits
      value |= (bits & 0x7F) << shift;
      if (bits < 0x80) return value;
    }
    fail();
    return 0;
  }

  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  bool failed_ = false;
};

}  // namespace gpumemprof::trace
