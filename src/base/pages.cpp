#include "base/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace gpumemprof {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) { return (bytes + kLargePage - 1) & ~(kLargePage - 1); }

// A reserved range aligned to a huge page: only then are huge pages moved whole.
char* reserve_aligned(std::size_t bytes) {
  void* range = mmap(nullptr, bytes + kLargePage, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw std::bad_alloc();
  auto* start = static_cast<char*>(range);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(start) & (kLargePage - 1);
  const std::size_t before = misaligned == 0 ? 0 : kLargePage - misaligned;
  if (before > 0) munmap(start, before);
  if (kLargePage - before > 0) munmap(start + before + bytes, kLargePage - before);
  return start + before;
}

}  // namespace

void* grow_pages(void* old, std::size_t old_bytes, std::size_t new_bytes) {
  const std::size_t bytes = rounded(new_bytes);
  char* target = reserve_aligned(bytes);
  const void* placed = old == nullptr ? mmap(target, bytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
                                      : mremap(old, rounded(old_bytes), bytes,
                                               MREMAP_MAYMOVE | MREMAP_FIXED, target);
  if (placed == MAP_FAILED) {
    munmap(target, bytes);
    throw std::bad_alloc();
  }
  // Only a hint: without huge pages everything works the same, a little slower.
  madvise(target, bytes, MADV_HUGEPAGE);
  return target;
}

void free_pages(void* pages, std::size_t bytes) { munmap(pages, rounded(bytes)); }

}  // namespace gpumemprof
