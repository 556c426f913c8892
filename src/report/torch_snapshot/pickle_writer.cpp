#include "report/torch_snapshot/pickle_writer.h"

#include <bit>
#include <limits>

namespace gpumemprof {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::uint32_t kBatch = 1000;  // as Python's own pickler does

}  // namespace

PickleWriter::PickleWriter(std::unique_ptr<FileSink> file) : file_(std::move(file)) {
  buffer_.reserve(kBufferBytes + (kBufferBytes >> 2));
  byte(0x80);  // PROTO
  byte(4);
}

void PickleWriter::number(std::uint64_t value, std::size_t bytes) {
  for (std::size_t index = 0; index < bytes; ++index)
    byte(static_cast<std::uint8_t>(value >> (8 * index)));
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value <= 0xFF) {
    byte('K');  // BININT1
    number(static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value <= 0xFFFF) {
    byte('M');  // BININT2
    number(static_cast<std::uint64_t>(value), 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    byte('J');  // BININT
    number(static_cast<std::uint64_t>(value), 4);
  } else {
    byte(0x8A);  // LONG1
    byte(8);
    number(static_cast<std::uint64_t>(value), 8);
  }
}

void PickleWriter::integer(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return integer(static_cast<std::int64_t>(value));
  }
  byte(0x8A);
  byte(9);
  number(value, 8);
  byte(0);
}

void PickleWriter::real(double value) {
  byte('G');  // BINFLOAT, big-endian
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) byte(static_cast<std::uint8_t>(bits >> shift));
}

void PickleWriter::text(std::string_view value) {
  if (value.size() <= 0xFF) {
    byte(0x8C);  // SHORT_BINUNICODE
    number(value.size(), 1);
  } else {
    byte('X');  // BINUNICODE
    number(value.size(), 4);
  }
  buffer_.insert(buffer_.end(), value.begin(), value.end());
}

void PickleWriter::common_text(std::string_view value) {
  const auto known = common_.find(value);
  if (known != common_.end()) return get(known->second);
  text(value);
  common_.emplace(value, memoize());
}

void PickleWriter::begin_dict() {
  byte('}');
  byte('(');
}

void PickleWriter::begin_list() {
  byte(']');
  byte('(');
  items_in_batch_.push_back(0);
}

void PickleWriter::end_item() {
  if (++items_in_batch_.back() >= kBatch) {
    items_in_batch_.back() = 0;
    byte('e');  // APPENDS
    byte('(');
  }
  if (buffer_.size() >= kBufferBytes) spill();
}

void PickleWriter::end_list() {
  items_in_batch_.pop_back();
  byte('e');
}

PickleWriter::Memo PickleWriter::memoize() {
  byte(0x94);
  return next_memo_++;
}

void PickleWriter::get(Memo memo) {
  if (memo <= 0xFF) {
    byte('h');  // BINGET
    number(memo, 1);
  } else {
    byte('j');  // LONG_BINGET
    number(memo, 4);
  }
}

void PickleWriter::spill() {
  if (!failure_) {
    const Status written = file_->write(std::as_bytes(std::span(buffer_)));
    if (!written) failure_ = written.error();
  }
  buffer_.clear();
}

Status PickleWriter::finish() {
  byte('.');
  spill();
  Status closed = file_->close();
  if (failure_) return *failure_;
  return closed;
}

}  // namespace gpumemprof
