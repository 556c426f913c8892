// Pages: memory for arrays that grow very large, taken from the system in whole pages.
//
// Growing moves page tables, not bytes, and huge pages are requested: reading a file of millions of
// events would otherwise spend a third of its time on page faults.
#pragma once

#include <cstddef>

namespace gpumemprof {

// Arrays of this size and above are worth their own pages.
inline constexpr std::size_t kPagesFromBytes = std::size_t{4} << 20;

// Memory for new_bytes that begins with the first old_bytes of `old` (which may be null, and is
// invalid afterwards). Throws std::bad_alloc.
void* grow_pages(void* old, std::size_t old_bytes, std::size_t new_bytes);
void free_pages(void* pages, std::size_t bytes);

}  // namespace gpumemprof
