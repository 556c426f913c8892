// HostMemory: what this process and its machine have left of main memory.
//
// The kernel ends a process without warning when main memory runs out, so what was seen last has to
// be in the file by then.
#pragma once

#include <cstdint>
#include <optional>

namespace gpumemprof::capture {

// Bytes. In a container with a limit, total and available are those of the container.
struct HostMemory {
  std::uint64_t resident_bytes = 0;  // of this process
  std::uint64_t available_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// None if the system does not report it. Reads a few files: about 50 µs.
std::optional<HostMemory> read_host_memory();

// Decides which readings are worth storing: those that differ from the last one stored.
class HostMemoryWatch {
 public:
  // None: nothing new.
  std::optional<HostMemory> look();

 private:
  std::optional<HostMemory> last_;
};

// Whether the difference is worth storing: an eighth of the machine, or a hundredth once little is
// left.
bool is_news(const HostMemory& last, const HostMemory& now);

}  // namespace gpumemprof::capture
