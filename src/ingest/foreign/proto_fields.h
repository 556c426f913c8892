// ProtoFields: the fields of one protobuf message, in order. Every length is checked; a message
// that is cut off or malformed ends there, and is_broken() says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpumemprof {

struct ProtoField {
  std::uint64_t number = 0;
  std::uint64_t value = 0;  // of a number
  std::string_view bytes;   // of a text, a message or a packed list
  bool has_bytes = false;
};

class ProtoFields {
 public:
  explicit ProtoFields(std::string_view message) : rest_(message) {}

  std::optional<ProtoField> next() {
    constexpr unsigned kVarint = 0;
    constexpr unsigned kFixed64 = 1;
    constexpr unsigned kBytes = 2;
    constexpr unsigned kFixed32 = 5;
    if (rest_.empty() || is_broken_) return std::nullopt;
    const std::optional<std::uint64_t> tag = varint();
    if (!tag || *tag >> 3U == 0) return broken();
    ProtoField field;
    field.number = *tag >> 3U;
    switch (*tag & 7U) {
      case kVarint: {
        const std::optional<std::uint64_t> value = varint();
        if (!value) return broken();
        field.value = *value;
        return field;
      }
      case kBytes: {
        const std::optional<std::uint64_t> length = varint();
        if (!length || *length > rest_.size()) return broken();
        field.bytes = take(static_cast<std::size_t>(*length));
        field.has_bytes = true;
        return field;
      }
      case kFixed64:
      case kFixed32: {
        const std::size_t length = (*tag & 7U) == kFixed64 ? 8 : 4;
        if (length > rest_.size()) return broken();
        take(length);
        return field;
      }
      default:
        return broken();
    }
  }

  // The next number of a packed list.
  std::optional<std::uint64_t> varint() {
    constexpr unsigned kBits = 64;
    constexpr unsigned kStep = 7;
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < kBits; shift += kStep) {
      if (rest_.empty()) return std::nullopt;
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_broken() const { return is_broken_; }
  [[nodiscard]] bool is_empty() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }  // not yet read

 private:
  std::string_view take(std::size_t length) {
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }
  std::optional<ProtoField> broken() {
    is_broken_ = true;
    return std::nullopt;
  }

  std::string_view rest_;
  bool is_broken_ = false;
};

}  // namespace gpumemprof
