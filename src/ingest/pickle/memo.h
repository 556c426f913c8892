// Memo: what the pickle stored for later reference, by index. Pickles number entries in order; an
// index out of order is kept separately, so that a file cannot claim memory by naming a huge index.
#pragma once

#include <unordered_map>

#include "base/column.h"
#include "ingest/pickle/heap.h"
#include "ingest/pickle/value.h"

namespace gpumemprof::pickle {

class Memo {
 public:
  explicit Memo(const Heap& heap) : heap_(heap) {}

  // Absent where nothing was stored. A dict or list that has since become a record or a stack is
  // returned as that.
  Value get(std::uint64_t place) {
    const Value value = place < places_.size() ? places_[place] : Value();
    if (value.is(Tag::absent)) [[unlikely]]
      return heap_.resolve(far_value(place));
    if (!value.is(Tag::dict) && !value.is(Tag::list)) [[likely]]
      return value;
    const Value resolved = heap_.resolve(value);
    places_[place] = resolved;
    return resolved;
  }

  void put(std::uint64_t place, Value value) {
    if (place < places_.size()) {
      places_[place] = value;
      ++overwrites_;
    } else if (place <= places_.size() + kGap) {
      places_.resize(place, Value());
      places_.push_back(value);
    } else {
      far_[place] = value;
    }
  }

  void push(Value value) { places_.push_back(value); }

  // How often an entry was overwritten. No real pickle does that; code that caches by index must
  // check.
  [[nodiscard]] std::uint64_t overwrites() const { return overwrites_; }

  [[nodiscard]] std::size_t memory_bytes() const {
    return places_.size() * sizeof(Value) + far_.size() * kFarBytes;
  }

 private:
  static constexpr std::uint64_t kGap = 16;
  static constexpr std::size_t kFarBytes = 64;  // about what a hash table spends on one entry

  [[nodiscard]] Value far_value(std::uint64_t place) const {
    const auto found = far_.find(place);
    return found == far_.end() ? Value() : found->second;
  }

  const Heap& heap_;
  Column<Value> places_;
  std::unordered_map<std::uint64_t, Value> far_;
  std::uint64_t overwrites_ = 0;
};

}  // namespace gpumemprof::pickle
