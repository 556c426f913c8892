#include "windows/fates.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"

namespace gpumemprof {

static_assert(std::is_trivially_copyable_v<Fate>);

void Fates::add(const Fate& fate) {
  const bool is_brief = fate.key < kNoEvent && fate.key >= read_before_;
  if (is_brief) {
    chunk_.push_back(fate);
    return;
  }
  long_by_key_.insert_or_assign(fate.key, static_cast<std::uint32_t>(long_.size()));
  long_.push_back(fate);
}

void Fates::end_window(std::uint32_t read) {
  if (!chunk_.empty()) {
    Chunk chunk{read_before_, read, static_cast<std::uint32_t>(chunk_.size()), 0, {}};
    if (const auto offset = file_->append(std::as_bytes(std::span(chunk_)))) {
      chunk.offset = *offset;
    } else {
      chunk.rows = chunk_;
    }
    chunks_.push_back(std::move(chunk));
    chunk_.clear();
  }
  read_before_ = last_read_;
  last_read_ = read;
}

void FateReader::begin_window(std::uint32_t read) {
  chunk_.clear();
  by_key_.clear();
  auto chunk = std::ranges::upper_bound(fates_.chunks_, read, {}, &Fates::Chunk::freed_until);
  for (; chunk != fates_.chunks_.end() && chunk->made_from < read; ++chunk) {
    const std::size_t first = chunk_.size();
    chunk_.insert(chunk_.end(), chunk->rows.begin(), chunk->rows.end());
    if (!chunk->rows.empty()) continue;
    chunk_.resize(first + chunk->count);
    GMP_CHECK(fates_.file_->read(chunk->offset,
                                 std::as_writable_bytes(std::span(chunk_).subspan(first))));
  }
  for (std::uint32_t row = 0; row < chunk_.size(); ++row)
    by_key_.insert_or_assign(chunk_[row].key, row);
}

const Fate* FateReader::find(std::uint64_t key) const {
  if (const std::uint32_t* row = by_key_.find(key)) return &chunk_[*row];
  const std::uint32_t* row = fates_.long_by_key_.find(key);
  return row == nullptr ? nullptr : &fates_.long_[*row];
}

}  // namespace gpumemprof
