#include "capture/ledger/size_table.h"

#include <sys/mman.h>

#include <new>

namespace gpumemprof::capture {
namespace {

// Above this load, probe sequences get long.
constexpr std::size_t most_rows(std::size_t capacity) { return capacity / 4 * 3; }

}  // namespace

SizeTable::SizeTable(std::size_t capacity, Reserve when) : capacity_(capacity) {
  if (when == Reserve::up_front && !reserve()) throw std::bad_alloc();
}

SizeTable::~SizeTable() {
  if (rows_ != nullptr) ::munmap(rows_, capacity_ * sizeof(Row));
}

bool SizeTable::reserve() {
  void* memory = ::mmap(nullptr, capacity_ * sizeof(Row), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  rows_ = static_cast<Row*>(memory);
  return true;
}

// Memory is handed out in multiples of 64 bytes: the lowest bits carry no information. Neighbours
// stay neighbours, so that a program's few hot addresses share a few cache lines; the higher bits
// are mixed in because large memory is page-aligned.
std::size_t SizeTable::home(std::uint64_t address) const {
  const std::uint64_t number = address >> 6U;
  return static_cast<std::size_t>(number ^ (number >> 15U) * 0x9E3779B1U) & (capacity_ - 1);
}

std::size_t SizeTable::find(std::uint64_t address) const {
  std::size_t row = home(address);
  while (rows_[row].address != address && rows_[row].address != 0)
    row = (row + 1) & (capacity_ - 1);
  return row;
}

bool SizeTable::insert(std::uint64_t address, std::uint64_t size_bytes) {
  if (count_ >= most_rows(capacity_) || (rows_ == nullptr && !reserve())) return false;
  rows_[find(address)] = {address, size_bytes};
  ++count_;
  return true;
}

bool SizeTable::take(std::uint64_t address, std::uint64_t& size_bytes) {
  if (count_ == 0) return false;
  std::size_t hole = find(address);
  if (address == 0 || rows_[hole].address != address) return false;
  size_bytes = rows_[hole].size_bytes;
  --count_;
  // Rows after it move up where possible, so that no search stops too early.
  for (std::size_t row = (hole + 1) & (capacity_ - 1); rows_[row].address != 0;
       row = (row + 1) & (capacity_ - 1)) {
    const std::size_t from_home = (row - home(rows_[row].address)) & (capacity_ - 1);
    const std::size_t from_hole = (row - hole) & (capacity_ - 1);
    if (from_home < from_hole) continue;
    rows_[hole] = rows_[row];
    hole = row;
  }
  rows_[hole] = {};
  return true;
}

void SizeTable::clear() {
  if (rows_ == nullptr) return;
  // The pages are returned and read as zero from now on.
  ::madvise(rows_, capacity_ * sizeof(Row), MADV_DONTNEED);
  count_ = 0;
}

}  // namespace gpumemprof::capture
