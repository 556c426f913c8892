#include "capture/native/frame_program.h"

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

namespace gpumemprof::capture {
namespace {

// DWARF's numbers of registers on x86-64.
constexpr std::uint64_t kBpRegister = 6;
constexpr std::uint64_t kSpRegister = 7;
constexpr std::uint64_t kReturnRegister = 16;

constexpr std::uint8_t kOmitted = 0xFF;
constexpr std::uint8_t kPcRelative = 0x10;
constexpr std::uint8_t kIndirect = 0x80;

// Reads forward and never past the end; what would be there is 0, and has_failed() says so.
class FrameBytes {
 public:
  FrameBytes(const std::uint8_t* begin, const std::uint8_t* end) : at_(begin), end_(end) {}

  [[nodiscard]] bool has_failed() const { return has_failed_; }
  [[nodiscard]] bool is_spent() const { return at_ >= end_; }
  [[nodiscard]] const std::uint8_t* position() const { return at_; }
  [[nodiscard]] const std::uint8_t* end() const { return end_; }

  template <typename T>
  T fixed() {
    T value{};
    if (!take(sizeof(T))) return value;
    std::memcpy(&value, at_ - sizeof(T), sizeof(T));
    return value;
  }
  std::uint64_t unsigned_number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if ((byte & 0x80U) == 0) return value;
    }
  }
  std::int64_t signed_number() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte = 0;
    do {
      byte = fixed<std::uint8_t>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      shift += 7;
    } while ((byte & 0x80U) != 0);
    if (shift < 64 && (byte & 0x40U) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  FrameBytes part(std::uint64_t length) {
    const std::uint8_t* begin = at_;
    return take(length) ? FrameBytes(begin, at_) : FrameBytes(begin, begin);
  }
  void skip(std::uint64_t length) { take(length); }
  std::string_view text() {
    const std::uint8_t* begin = at_;
    while (fixed<std::uint8_t>() != 0) {
    }
    if (has_failed_) return {};
    return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(at_ - begin) - 1};
  }
  // A pointer, or where it is relative to nothing, a length.
  std::uintptr_t encoded(std::uint8_t encoding) {
    const auto here = reinterpret_cast<std::uintptr_t>(at_);
    std::uintptr_t value = 0;
    switch (encoding & 0x0FU) {
      case 0x00:
      case 0x04:
      case 0x0C:
        value = fixed<std::uint64_t>();
        break;
      case 0x02:
        value = fixed<std::uint16_t>();
        break;
      case 0x03:
        value = fixed<std::uint32_t>();
        break;
      case 0x0A:
        value = static_cast<std::uintptr_t>(std::intptr_t{fixed<std::int16_t>()});
        break;
      case 0x0B:
        value = static_cast<std::uintptr_t>(std::intptr_t{fixed<std::int32_t>()});
        break;
      default:
        has_failed_ = true;
    }
    const std::uint8_t base = encoding & 0x70U;
    if ((encoding & kIndirect) != 0 || (base != 0 && base != kPcRelative)) has_failed_ = true;
    return base == kPcRelative ? value + here : value;
  }

 private:
  bool take(std::uint64_t length) {
    // A loop that reads a number ends, since bytes past the end are 0.
    if (length > static_cast<std::uint64_t>(end_ - at_)) {
      has_failed_ = true;
      at_ = end_;
      return false;
    }
    at_ += length;
    return true;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool has_failed_ = false;
};

// An entry begins with its length; entries of 64 bits are written by nobody.
std::optional<FrameBytes> entry_bytes(const std::uint8_t* entry) {
  std::uint32_t length = 0;
  std::memcpy(&length, entry, sizeof(length));
  if (length == 0 || length == 0xFFFF'FFFF) return std::nullopt;
  const std::uint8_t* begin = entry + sizeof(length);
  return FrameBytes(begin, begin + length);
}

// What the functions of one compilation have in common.
struct CommonEntry {
  std::uint64_t code_unit = 1;
  std::int64_t data_unit = 1;
  std::uint8_t encoding = 0;
  bool has_lengths = false;  // an entry says how long its augmentation is
  FrameBytes program{nullptr, nullptr};
};

std::optional<CommonEntry> read_common(const std::uint8_t* entry) {
  std::optional<FrameBytes> bytes = entry_bytes(entry);
  if (!bytes || bytes->fixed<std::uint32_t>() != 0) return std::nullopt;
  const auto version = bytes->fixed<std::uint8_t>();
  if (version != 1 && version != 3) return std::nullopt;
  const std::string_view augmentation = bytes->text();
  CommonEntry common;
  common.code_unit = bytes->unsigned_number();
  common.data_unit = bytes->signed_number();
  const std::uint64_t return_register =
      version == 1 ? bytes->fixed<std::uint8_t>() : bytes->unsigned_number();
  if (return_register != kReturnRegister) return std::nullopt;
  if (!augmentation.empty() && augmentation.front() != 'z') return std::nullopt;
  if (!augmentation.empty()) {
    common.has_lengths = true;
    FrameBytes data = bytes->part(bytes->unsigned_number());
    for (const char letter : augmentation.substr(1)) {
      if (letter == 'R') {
        common.encoding = data.fixed<std::uint8_t>();
      } else if (letter == 'L') {
        data.skip(1);
      } else if (letter == 'P') {
        const auto encoding = data.fixed<std::uint8_t>();
        const std::size_t pointer_bytes = encoded_bytes(encoding);
        if (pointer_bytes == 0) return std::nullopt;
        data.skip(pointer_bytes);
      } else {
        return std::nullopt;  // among them 'S': a signal interrupted the program here
      }
    }
    if (data.has_failed()) return std::nullopt;
  }
  if (bytes->has_failed()) return std::nullopt;
  common.program = *bytes;
  return common;
}

struct RegisterRule {
  enum class How : std::uint8_t { same, at_offset, at_expression, undefined, other };
  How how = How::same;
  std::int64_t offset = 0;  // at_expression: from bp
};

struct FrameRow {
  enum class Cfa : std::uint8_t { from_register, stored_at_bp, other };
  Cfa cfa = Cfa::other;
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  RegisterRule bp;
  RegisterRule return_address;
};

// The expressions that compilers write: bp plus a number, and for the frame what is stored there.
std::optional<std::int64_t> bp_plus(FrameBytes expression, bool is_dereferenced) {
  constexpr std::uint8_t kBpPlus = 0x76;
  constexpr std::uint8_t kDereference = 0x06;
  if (expression.fixed<std::uint8_t>() != kBpPlus) return std::nullopt;
  const std::int64_t offset = expression.signed_number();
  if (is_dereferenced && expression.fixed<std::uint8_t>() != kDereference) return std::nullopt;
  if (expression.has_failed() || !expression.is_spent()) return std::nullopt;
  return offset;
}

class FrameProgram {
 public:
  explicit FrameProgram(const CommonEntry& common) : common_(common) {}

  // Runs the program up to the instruction at this address. False: it says what we do not follow.
  bool run(FrameBytes program, std::uintptr_t begin, std::uintptr_t address) {
    std::uintptr_t here = begin;
    while (!program.is_spent()) {
      const auto operation = program.fixed<std::uint8_t>();
      if (const auto step = advance(operation, program)) {
        here += *step * common_.code_unit;
        if (here > address) return !program.has_failed();
        continue;
      }
      if (!apply(operation, program) || program.has_failed()) return false;
    }
    return true;
  }
  void keep_initial() { initial_ = row_; }
  [[nodiscard]] const FrameRow& row() const { return row_; }

 private:
  static constexpr std::size_t kMostRemembered = 8;

  static std::optional<std::uint64_t> advance(std::uint8_t operation, FrameBytes& program) {
    if ((operation & 0xC0U) == 0x40U) return operation & 0x3FU;
    if (operation == 0x02) return program.fixed<std::uint8_t>();
    if (operation == 0x03) return program.fixed<std::uint16_t>();
    if (operation == 0x04) return program.fixed<std::uint32_t>();
    return std::nullopt;
  }

  void set(std::uint64_t number, RegisterRule rule) {
    if (number == kBpRegister) row_.bp = rule;
    if (number == kReturnRegister) row_.return_address = rule;
  }
  void restore(std::uint64_t number) {
    if (number == kBpRegister) row_.bp = initial_.bp;
    if (number == kReturnRegister) row_.return_address = initial_.return_address;
  }
  [[nodiscard]] RegisterRule at(std::int64_t factored) const {
    return {RegisterRule::How::at_offset, factored * common_.data_unit};
  }

  bool apply(std::uint8_t operation, FrameBytes& program) {
    if ((operation & 0xC0U) == 0x80U) {
      set(operation & 0x3FU, at(static_cast<std::int64_t>(program.unsigned_number())));
      return true;
    }
    if ((operation & 0xC0U) == 0xC0U) {
      restore(operation & 0x3FU);
      return true;
    }
    return operation >= 0x0A && operation <= 0x0F ? apply_to_frame(operation, program)
                                                  : apply_to_register(operation, program);
  }

  bool apply_to_frame(std::uint8_t operation, FrameBytes& program) {
    switch (operation) {
      case 0x0A:  // remember_state
        if (remembered_ == kMostRemembered) return false;
        states_[remembered_++] = row_;
        return true;
      case 0x0B:  // restore_state
        if (remembered_ == 0) return false;
        row_ = states_[--remembered_];
        return true;
      case 0x0C:  // def_cfa
        row_.cfa = FrameRow::Cfa::from_register;
        row_.cfa_register = program.unsigned_number();
        row_.cfa_offset = static_cast<std::int64_t>(program.unsigned_number());
        return true;
      case 0x0D:  // def_cfa_register
        row_.cfa = FrameRow::Cfa::from_register;
        row_.cfa_register = program.unsigned_number();
        return true;
      case 0x0E:  // def_cfa_offset
        row_.cfa_offset = static_cast<std::int64_t>(program.unsigned_number());
        return true;
      default: {  // def_cfa_expression
        const std::optional<std::int64_t> offset =
            bp_plus(program.part(program.unsigned_number()), true);
        row_.cfa = offset ? FrameRow::Cfa::stored_at_bp : FrameRow::Cfa::other;
        row_.cfa_offset = offset.value_or(0);
        return true;
      }
    }
  }

  bool apply_to_register(std::uint8_t operation, FrameBytes& program) {
    switch (operation) {
      case 0x00:  // nop
        return true;
      case 0x05: {  // offset_extended
        const std::uint64_t number = program.unsigned_number();
        set(number, at(static_cast<std::int64_t>(program.unsigned_number())));
        return true;
      }
      case 0x06:  // restore_extended
        restore(program.unsigned_number());
        return true;
      case 0x07:  // undefined
        set(program.unsigned_number(), {RegisterRule::How::undefined, 0});
        return true;
      case 0x08:  // same_value
        set(program.unsigned_number(), {});
        return true;
      case 0x10: {  // expression
        const std::uint64_t number = program.unsigned_number();
        const std::optional<std::int64_t> offset =
            bp_plus(program.part(program.unsigned_number()), false);
        set(number, {offset ? RegisterRule::How::at_expression : RegisterRule::How::other,
                     offset.value_or(0)});
        return true;
      }
      case 0x11: {  // offset_extended_sf
        const std::uint64_t number = program.unsigned_number();
        set(number, at(program.signed_number()));
        return true;
      }
      case 0x12:  // def_cfa_sf
        row_.cfa = FrameRow::Cfa::from_register;
        row_.cfa_register = program.unsigned_number();
        row_.cfa_offset = program.signed_number() * common_.data_unit;
        return true;
      case 0x13:  // def_cfa_offset_sf
        row_.cfa_offset = program.signed_number() * common_.data_unit;
        return true;
      case 0x09:  // register
      case 0x14:  // val_offset
        set(program.unsigned_number(), {RegisterRule::How::other, 0});
        program.unsigned_number();
        return true;
      case 0x15:  // val_offset_sf
        set(program.unsigned_number(), {RegisterRule::How::other, 0});
        program.signed_number();
        return true;
      case 0x16:  // val_expression
        set(program.unsigned_number(), {RegisterRule::How::other, 0});
        program.skip(program.unsigned_number());
        return true;
      case 0x2E:  // GNU_args_size
        program.unsigned_number();
        return true;
      default:
        return false;
    }
  }

  const CommonEntry& common_;
  FrameRow row_;
  FrameRow initial_;
  std::array<FrameRow, kMostRemembered> states_;
  std::size_t remembered_ = 0;
};

UnwindRule rule_of_row(const FrameRow& row) {
  UnwindRule rule;
  if (row.return_address.how == RegisterRule::How::undefined) {
    rule.frame = UnwindRule::Frame::outermost;
    return rule;
  }
  constexpr std::int64_t kReturnOffset = -8;
  if (row.return_address.how != RegisterRule::How::at_offset ||
      row.return_address.offset != kReturnOffset ||
      row.cfa_offset != static_cast<std::int32_t>(row.cfa_offset) ||
      !UnwindRule::fits(row.bp.offset))
    return rule;
  rule.frame_offset = static_cast<std::int32_t>(row.cfa_offset);
  rule.bp_offset = static_cast<std::int32_t>(row.bp.offset);
  switch (row.bp.how) {
    case RegisterRule::How::same:
      rule.bp = UnwindRule::Bp::same;
      break;
    case RegisterRule::How::at_offset:
      rule.bp = UnwindRule::Bp::saved;
      break;
    case RegisterRule::How::at_expression:
      rule.bp = UnwindRule::Bp::stored_at_bp;
      break;
    case RegisterRule::How::undefined:
    case RegisterRule::How::other:
      rule.bp = UnwindRule::Bp::lost;
      break;
  }
  if (row.cfa == FrameRow::Cfa::stored_at_bp) {
    rule.frame = UnwindRule::Frame::stored_at_bp;
  } else if (row.cfa == FrameRow::Cfa::from_register && row.cfa_register == kSpRegister) {
    rule.frame = UnwindRule::Frame::from_sp;
  } else if (row.cfa == FrameRow::Cfa::from_register && row.cfa_register == kBpRegister) {
    rule.frame = UnwindRule::Frame::from_bp;
  }
  return rule;
}

}  // namespace

std::size_t encoded_bytes(std::uint8_t encoding) {
  if (encoding == kOmitted) return 0;
  switch (encoding & 0x0FU) {
    case 0x00:
    case 0x04:
    case 0x0C:
      return 8;
    case 0x02:
    case 0x0A:
      return 2;
    case 0x03:
    case 0x0B:
      return 4;
    default:
      return 0;
  }
}

UnwindRule rule_of_description(const std::uint8_t* entry, std::uintptr_t address) {
  std::optional<FrameBytes> bytes = entry_bytes(entry);
  if (!bytes) return {};
  const std::uint8_t* distance_from = bytes->position();
  const auto distance = bytes->fixed<std::uint32_t>();
  if (distance == 0) return {};  // not a description, but what several have in common
  const std::optional<CommonEntry> common = read_common(distance_from - distance);
  if (!common) return {};
  const std::uintptr_t begin = bytes->encoded(common->encoding);
  const std::uintptr_t length = bytes->encoded(common->encoding & 0x0FU);
  if (bytes->has_failed() || address < begin || address - begin >= length) return {};
  if (common->has_lengths) bytes->skip(bytes->unsigned_number());
  FrameProgram program(*common);
  if (!program.run(common->program, 0, ~std::uintptr_t{0})) return {};
  program.keep_initial();
  if (!program.run(*bytes, begin, address)) return {};
  return rule_of_row(program.row());
}

}  // namespace gpumemprof::capture
