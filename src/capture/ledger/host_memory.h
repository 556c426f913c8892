// HostMemory: what this process and its machine have left of main memory.
//
// The kernel ends a process without warning when main memory runs out, so what was seen last has to
// be in the file by then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpumemprof::capture {

// Bytes. If a container or a job has a limit that leaves less, total and available are its own.
struct HostMemory {
  std::uint64_t resident_bytes = 0;  // of this process
  std::uint64_t available_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// None if the system does not report it. Reads a few files: about 50 µs.
std::optional<HostMemory> read_host_memory();
// Takes over the limit that leaves least, of the control groups that contain this process: a job's
// limit may be far below that of its machine. `groups`: as in /proc/self/cgroup.
void apply_limits(const std::string& mounted, std::string_view groups, HostMemory& host);

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
