// Rows<T>: what a recording holds many of, read in order, in batches: for (const Event& event :
// device.events()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

namespace gpumemprof {

// `Reader` has `using Row`, `using Raw`, `size_t read(uint64_t first, Raw* rows, size_t count)
// const` and `static Row row(const Raw&)`. A range may be iterated as often as one likes; an
// iterator only once.
template <typename Reader>
class Rows {
 public:
  using Row = typename Reader::Row;

  explicit Rows(Reader reader) : reader_(reader) {}

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Row;
    using difference_type = std::ptrdiff_t;
    using pointer = const Row*;
    using reference = Row;

    Iterator() = default;
    explicit Iterator(const Reader& reader) : batch_(std::make_shared<Batch>(reader)) { settle(); }

    Row operator*() const { return Reader::row(batch_->rows[batch_->position]); }
    Iterator& operator++() {
      ++batch_->position;
      settle();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return batch_ == other.batch_; }
    bool operator!=(const Iterator& other) const { return !(*this == other); }

   private:
    struct Batch {
      explicit Batch(const Reader& from) : reader(from), rows(kRows) {}

      static constexpr std::size_t kRows = 512;
      Reader reader;
      std::vector<typename Reader::Raw> rows;
      std::uint64_t first = 0;  // of the next batch
      std::size_t position = 0;
      std::size_t count = 0;
    };

    // The next batch where this one is used up; none: the end.
    void settle() {
      if (batch_->position < batch_->count) return;
      batch_->count = batch_->reader.read(batch_->first, batch_->rows.data(), Batch::kRows);
      batch_->first += batch_->count;
      batch_->position = 0;
      if (batch_->count == 0) batch_.reset();
    }

    std::shared_ptr<Batch> batch_;  // null: the end
  };

  Iterator begin() const { return Iterator(reader_); }
  Iterator end() const { return Iterator(); }

 private:
  Reader reader_;
};

}  // namespace gpumemprof
