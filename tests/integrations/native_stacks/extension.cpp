// An extension of Python that allocates as torch's operators do.
#include <cstddef>

namespace c10 {
void* alloc_cpu(std::size_t bytes);
void free_cpu(void* memory);
}  // namespace c10

namespace {
[[gnu::noinline]] void* scratch(std::size_t bytes) {
  void* memory = c10::alloc_cpu(bytes);  // line: scratch
  asm volatile("" : "+r"(memory));
  return memory;
}
}  // namespace

extern "C" void* own_operator(std::size_t bytes) {
  void* memory = scratch(bytes);  // line: operator
  asm volatile("" : "+r"(memory));
  return memory;
}
extern "C" void release(void* memory) { c10::free_cpu(memory); }
