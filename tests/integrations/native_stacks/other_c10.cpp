// A libc10 of another kind: it has the functions, but does not allocate as those that are known.
#include <cstddef>
#include <cstdlib>

namespace c10 {
void* alloc_cpu(std::size_t bytes) { return std::malloc(bytes); }
void free_cpu(void* memory) { std::free(memory); }
}  // namespace c10
