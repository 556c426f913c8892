#include "capture/stacks/code_reader.h"

#include <algorithm>
#include <cstring>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

constexpr std::size_t kObjectType = 8;
constexpr std::size_t kTypeName = 24;
constexpr std::size_t kTextLength = 16;
constexpr std::size_t kTextHash = 24;
constexpr std::size_t kTextState = 32;
constexpr std::size_t kBytesLength = 16;
constexpr std::size_t kBytesData = 32;
constexpr std::uint32_t kCompactBit = 0x20;
constexpr std::uint32_t kAsciiBit = 0x40;
constexpr std::size_t kMaxTableBytes = std::size_t{64} * 1024;

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

std::uint64_t mix_bytes(std::uint64_t hash, std::string_view bytes) {
  hash = mix(hash, bytes.size());
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    hash = mix(hash, read_raw<std::uint64_t>(reinterpret_cast<std::uintptr_t>(bytes.data()) + at));
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  return mix(hash, rest);
}

unsigned kind_of(std::uint32_t state) { return (state >> 2) & 7U; }

std::string_view bytes_object(std::uintptr_t bytes) {
  const auto size = read_raw<std::int64_t>(bytes + kBytesLength);
  if (size < 0) return {};
  return {pointer_at<const char>(bytes + kBytesData), static_cast<std::size_t>(size)};
}

std::uint32_t character_at(std::uintptr_t data, unsigned kind, std::size_t index) {
  if (kind == 1) return read_raw<std::uint8_t>(data + index);
  if (kind == 2) return read_raw<std::uint16_t>(data + 2 * index);
  return read_raw<std::uint32_t>(data + 4 * index);
}

// Appends one character; false when it does not fit.
bool put_utf8(std::span<char> buffer, std::size_t& size, std::uint32_t character) {
  if (character >= 0xD800 && character < 0xE000)
    character = '?';  // a lone surrogate is not valid text
  const std::size_t length = character < 0x80      ? 1U
                             : character < 0x800   ? 2U
                             : character < 0x10000 ? 3U
                                                   : 4U;
  if (size + length > buffer.size()) return false;
  if (length == 1) {
    buffer[size++] = static_cast<char>(character);
    return true;
  }
  constexpr std::uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  buffer[size++] = static_cast<char>(kLead[length] | (character >> (6 * (length - 1))));
  for (std::size_t left = length - 1; left > 0; --left) {
    buffer[size++] = static_cast<char>(0x80U | ((character >> (6 * (left - 1))) & 0x3FU));
  }
  return true;
}

}  // namespace

std::uint64_t CodeReader::fingerprint(std::uintptr_t code) const {
  const std::string_view table = bytes_object(read_raw<std::uintptr_t>(code + layout_.line_table));
  std::uint64_t hash = read_raw<std::uint32_t>(code + layout_.first_line);
  hash = mix_bytes(hash, raw_text(read_raw<std::uintptr_t>(code + layout_.name)));
  hash = mix_bytes(hash, raw_text(read_raw<std::uintptr_t>(code + layout_.file)));
  // A long table is identified by its two ends and its length; hashing the rest would cost more
  // than it is worth.
  constexpr std::size_t kEndBytes = 128;
  hash = mix_bytes(mix(hash, table.size()), table.substr(0, kEndBytes));
  if (table.size() > kEndBytes) hash = mix_bytes(hash, table.substr(table.size() - kEndBytes));
  return hash;
}

std::uint64_t CodeReader::quick_hash(std::uintptr_t code) const {
  const auto name = read_raw<std::uintptr_t>(code + layout_.name);
  const auto file = read_raw<std::uintptr_t>(code + layout_.file);
  // Names are interned, so their hash is already computed; generated file names differ at their
  // end.
  std::uint64_t hash = read_raw<std::uint64_t>(name + kTextHash) ^
                       read_raw<std::uint32_t>(code + layout_.first_line);
  hash = mix(hash, file ^ read_raw<std::uintptr_t>(code + layout_.line_table));
  const std::string_view text = raw_text(file);
  if (text.size() >= 8)
    hash ^= read_raw<std::uint64_t>(reinterpret_cast<std::uintptr_t>(text.end()) - 8);
  return hash ^ text.size();
}

std::string_view CodeReader::raw_text(std::uintptr_t text) const {
  const auto state = read_raw<std::uint32_t>(text + kTextState);
  const auto length = read_raw<std::int64_t>(text + kTextLength);
  if ((state & kCompactBit) == 0 || length < 0) return {};
  const std::size_t data = (state & kAsciiBit) != 0 ? layout_.ascii_data : layout_.compact_data;
  return {pointer_at<const char>(text + data), static_cast<std::size_t>(length) * kind_of(state)};
}

std::string_view CodeReader::utf8(std::uintptr_t text, std::span<char> buffer) const {
  const auto state = read_raw<std::uint32_t>(text + kTextState);
  const std::string_view raw = raw_text(text);
  if ((state & kAsciiBit) != 0) return raw.substr(0, buffer.size());
  const unsigned kind = kind_of(state);
  if (kind != 1 && kind != 2 && kind != 4) return {};
  std::size_t size = 0;
  const auto data = reinterpret_cast<std::uintptr_t>(raw.data());
  for (std::size_t index = 0; index < raw.size() / kind; ++index) {
    if (!put_utf8(buffer, size, character_at(data, kind, index))) break;
  }
  return {buffer.data(), size};
}

std::uintptr_t CodeReader::type_of(std::uintptr_t object) {
  return read_raw<std::uintptr_t>(object + kObjectType);
}

std::string_view CodeReader::type_name(std::uintptr_t type) {
  constexpr std::size_t kLongest = 256;
  const auto name = read_raw<const char*>(type + kTypeName);
  return name == nullptr ? std::string_view() : std::string_view(name, ::strnlen(name, kLongest));
}

bool CodeReader::read_code(std::uintptr_t code, CodeText& text,
                           std::span<char, 2 * kTextBytes> buffer) const {
  if (code == 0 || read_raw<const void*>(code + kObjectType) != layout_.code_type) return false;
  const std::span<char> both = buffer;
  text.name = utf8(read_raw<std::uintptr_t>(code + layout_.name), both.first(kTextBytes));
  text.file = utf8(read_raw<std::uintptr_t>(code + layout_.file), both.subspan(kTextBytes));
  text.line_table =
      bytes_object(read_raw<std::uintptr_t>(code + layout_.line_table)).substr(0, kMaxTableBytes);
  text.first_line = read_raw<std::uint32_t>(code + layout_.first_line);
  return true;
}

}  // namespace gpumemprof::capture
