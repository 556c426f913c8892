#include "capture/stacks/line_table.h"

namespace gpumemprof::capture {
namespace {

std::uint8_t byte_at(std::string_view table, std::size_t index) {
  return static_cast<std::uint8_t>(table[index]);
}
int signed_at(std::string_view table, std::size_t index) {
  return static_cast<std::int8_t>(table[index]);
}

// 3.9: pairs of (bytes forward, lines forward); a line starts where its pair ends.
std::int64_t lnotab_line(std::string_view table, std::int64_t line, std::uint32_t instruction) {
  std::uint32_t address = 0;
  for (std::size_t index = 0; index + 1 < table.size(); index += 2) {
    address += byte_at(table, index);
    if (address > instruction) break;
    line += signed_at(table, index + 1);
  }
  return line;
}

// 3.10: pairs of (bytes covered, lines forward); −128 covers code without a line.
std::int64_t pep626_line(std::string_view table, std::int64_t line, std::uint32_t instruction) {
  constexpr int kNoLine = -128;
  std::uint32_t address = 0;
  for (std::size_t index = 0; index + 1 < table.size(); index += 2) {
    const int step = signed_at(table, index + 1);
    if (step != kNoLine) line += step;
    address += byte_at(table, index);
    if (address > instruction) break;
  }
  return line;
}

// 3.11 and later: entries of a header byte (code, length) and its varints.
class LocationEntries {
 public:
  LocationEntries(std::string_view table, std::int64_t line) : table_(table), line_(line) {}

  [[nodiscard]] std::int64_t find(std::uint32_t instruction) {
    constexpr std::uint32_t kUnitBytes = 2;
    std::uint32_t address = 0;
    while (at_ < table_.size()) {
      const std::uint8_t head = byte_at(table_, at_++);
      advance((head >> 3) & 15U);
      address += ((head & 7U) + 1) * kUnitBytes;
      if (address > instruction) break;
      // The next entry starts at the next byte with its top bit set.
      while (at_ < table_.size() && (byte_at(table_, at_) & 0x80U) == 0) ++at_;
    }
    return line_;
  }

 private:
  void advance(unsigned code) {
    constexpr unsigned kNone = 15;
    constexpr unsigned kLong = 14;
    constexpr unsigned kNoColumns = 13;
    constexpr unsigned kOneLine0 = 10;
    if (code == kNone) return;
    if (code == kLong || code == kNoColumns) {
      line_ += signed_varint();
    } else if (code >= kOneLine0) {
      line_ += code - kOneLine0;
    }
  }

  std::int64_t signed_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at_ < table_.size() && shift < 60; shift += 6) {
      const std::uint8_t byte = byte_at(table_, at_++);
      value |= static_cast<std::uint64_t>(byte & 63U) << shift;
      if ((byte & 64U) == 0) break;
    }
    const auto magnitude = static_cast<std::int64_t>(value >> 1);
    return (value & 1U) != 0 ? -magnitude : magnitude;
  }

  std::string_view table_;
  std::size_t at_ = 0;
  std::int64_t line_;
};

}  // namespace

std::uint32_t line_of(LineTableFormat format, std::string_view table, std::uint32_t first_line,
                      std::uint32_t instruction) {
  std::int64_t line = first_line;
  switch (format) {
    case LineTableFormat::lnotab:
      line = lnotab_line(table, line, instruction);
      break;
    case LineTableFormat::pep626:
      line = pep626_line(table, line, instruction);
      break;
    case LineTableFormat::locations:
      line = LocationEntries(table, line).find(instruction);
      break;
  }
  return line < 0 ? 0 : static_cast<std::uint32_t>(line);
}

}  // namespace gpumemprof::capture
