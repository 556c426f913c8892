// Pages: memory for arrays that grow very large, taken from the system in whole pages.
//
// Growing moves page tables, not bytes, and large pages are asked for: reading a file of millions
// of events would otherwise spend a third of its time on page faults.
#pragma once

#include <cstddef>

namespace gpumemprof {

// Arrays from this size on are worth pages of their own.
inline constexpr std::size_t kPagesFromBytes = std::size_t{4} << 20;

// Room for new_bytes that begins with the first old_bytes of `old` (which may be null, and is gone
// afterwards). Throws std::bad_alloc.
void* grow_pages(void* old, std::size_t old_bytes, std::size_t new_bytes);
void free_pages(void* pages, std::size_t bytes);

}  // namespace gpumemprof
