#include "base/interner.h"

#include <cstring>

namespace gpumemprof {

std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = 0x2545F4914F6CDD1DULL ^ bytes.size();
  const char* data = bytes.data();
  std::size_t left = bytes.size();
  while (left > 0) {
    std::uint64_t word = 0;
    const std::size_t take = left < sizeof(word) ? left : sizeof(word);
    std::memcpy(&word, data, take);
    hash = (hash ^ word) * 0x9FB21C651E98DF25ULL;
    hash ^= hash >> 32;
    data += take;
    left -= take;
  }
  return hash == FlatMap<std::uint32_t>::kEmpty ? 0 : hash;
}

Interner::Interner() {
  offsets_.push_back(0);
  intern("");
}

StringId Interner::intern(std::string_view text) {
  const auto fresh = static_cast<std::uint32_t>(size());
  std::uint32_t& first = first_by_hash_.find_or_insert(hash_bytes(text), fresh);
  for (std::uint32_t row = first; row != fresh && row != StringId::kNone;
       row = next_same_hash_[row]) {
    if (this->text(StringId(row)) == text) return StringId(row);
  }
  next_same_hash_.push_back(first == fresh ? StringId::kNone : first);
  first = fresh;
  bytes_.append({text.data(), text.size()});
  offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
  return StringId(fresh);
}

std::string_view Interner::text(StringId id) const {
  GMP_CHECK(id.index < size());
  const auto begin = static_cast<std::size_t>(offsets_[id.index]);
  const auto end = static_cast<std::size_t>(offsets_[id.index + 1]);
  return {bytes_.data() + begin, end - begin};
}

std::size_t Interner::memory_bytes() const {
  return bytes_.capacity_bytes() + offsets_.capacity_bytes() + next_same_hash_.capacity_bytes() +
         first_by_hash_.size() * 32;
}

}  // namespace gpumemprof
