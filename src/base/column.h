// Column<T>: a growable, contiguous array for very many small values.
//
// Small columns live on the heap, large ones in their own pages, which are remapped instead of
// being copied: a column of a hundred million rows never needs memory for two copies of itself.
// Rows that were never written take no memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/pages.h"

namespace gpumemprof {

template <typename T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;
  Column(Column&& other) noexcept { swap(other); }
  Column& operator=(Column&& other) noexcept {
    Column taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Column() { release(); }

  void swap(Column& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t capacity_bytes() const { return capacity_ * sizeof(T); }

  T& operator[](std::size_t row) { return data_[row]; }
  const T& operator[](std::size_t row) const { return data_[row]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  [[nodiscard]] std::span<const T> span() const { return {data_, size_}; }

  void push_back(T value) {
    if (size_ == capacity_) [[unlikely]]
      grow(size_ + 1);
    data_[size_++] = value;
  }
  // Only after reserve() made room.
  void push_unchecked(T value) { data_[size_++] = value; }
  void pop_back() { --size_; }
  void truncate(std::size_t size) { size_ = size; }
  void clear() { size_ = 0; }

  void resize(std::size_t size, T fill) {
    if (size > capacity_) grow(size);
    for (std::size_t row = size_; row < size; ++row) data_[row] = fill;
    size_ = size;
  }

  void append(std::span<const T> values) {
    if (size_ + values.size() > capacity_) grow(size_ + values.size());
    for (const T& value : values) data_[size_++] = value;
  }

  void reserve(std::size_t capacity) {
    if (capacity > capacity_) grow(capacity);
  }

  // Releases unused capacity; a finished column costs what it holds.
  void shrink_to_fit() {
    if (size_ == 0) {
      Column().swap(*this);
    } else if (size_ < capacity_) {
      reallocate(size_);
    }
  }

 private:
  void grow(std::size_t needed) {
    std::size_t capacity = capacity_ + capacity_ / 2 + 16;
    if (capacity < needed) capacity = needed;
    reallocate(capacity);
  }
  [[nodiscard]] static bool is_paged(std::size_t capacity) {
    return capacity * sizeof(T) >= kPagesFromBytes;
  }

  void reallocate(std::size_t capacity) {
    if (is_paged(capacity) != is_paged(capacity_) || capacity_ == 0) return move_to(capacity);
    void* data = is_paged(capacity) ? grow_pages(data_, capacity_ * sizeof(T), capacity * sizeof(T))
                                    : std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    if (data == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(data);
    capacity_ = capacity;
  }

  // Moves to the other kind of memory.
  void move_to(std::size_t capacity) {
    void* data = is_paged(capacity) ? grow_pages(nullptr, 0, capacity * sizeof(T))
                                    : std::malloc(capacity * sizeof(T));
    if (data == nullptr) throw std::bad_alloc();
    if (size_ > 0) std::memcpy(data, static_cast<const void*>(data_), size_ * sizeof(T));
    release();
    data_ = static_cast<T*>(data);
    capacity_ = capacity;
  }

  void release() {
    if (is_paged(capacity_)) {
      free_pages(data_, capacity_ * sizeof(T));
    } else {
      std::free(data_);
    }
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace gpumemprof
