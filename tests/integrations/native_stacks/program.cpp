// Records itself, and allocates as libtorch does: under a member, a template, a lambda and calls
// that are inlined.
#include <gpumemprof/recorder.h>

#include <cstddef>
#include <iostream>
#include <thread>
#include <vector>

namespace c10 {
void* alloc_cpu(std::size_t bytes);
void free_cpu(void* memory);
}  // namespace c10

namespace own {

struct Network {
  [[gnu::noinline]] void* forward(std::size_t bytes) {
    void* memory = c10::alloc_cpu(bytes);  // line: forward
    asm volatile("" : "+r"(memory));
    return memory;
  }
};

template <typename Function>
[[gnu::always_inline]] inline void* called(const Function& function) {
  return function();  // line: called
}

[[gnu::noinline]] void* train(Network& network) {
  void* memory = called([&] {
    void* inner = network.forward(1 << 20);  // line: lambda
    asm volatile("" : "+r"(inner));
    return inner;
  });
  asm volatile("" : "+r"(memory));
  return memory;
}

}  // namespace own

int main(int argc, char** argv) {
  gpumemprof::RecordOptions options;
  options.overwrites = true;
  options.stacks = argc < 3;
  gpumemprof::Recorder recorder(argv[1], options);
  if (!recorder.ok()) std::cerr << recorder.error().sentence << '\n';
  own::Network network;
  void* first = own::train(network);
  void* second = nullptr;
  std::thread([&] { second = network.forward(1 << 18); }).join();  // line: thread
  c10::free_cpu(first);
  c10::free_cpu(second);
  std::cout << "ran to its end\n";
  return 0;
}
