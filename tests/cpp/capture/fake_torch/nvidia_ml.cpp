// A stand-in for the driver's library: one card, of which this process uses what a test says.
#include <unistd.h>

#include <cstring>

#pragma GCC visibility push(default)
// NOLINTBEGIN(readability-identifier-naming): names by which capture looks for them.
extern "C" {

unsigned long long fake_used_bytes = 0;

struct FakeMemory {
  unsigned long long total, free, used;
};
struct FakeProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  *handle = &fake_used_bytes;
  return std::strcmp(uuid, "GPU-fake") == 0 ? 0 : 6;
}
int nvmlDeviceGetMemoryInfo(void*, FakeMemory* memory) {
  *memory = {1ULL << 40, (1ULL << 40) - fake_used_bytes, fake_used_bytes};
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, FakeProcess* processes) {
  *count = 1;
  processes[0] = {static_cast<unsigned>(::getpid()), fake_used_bytes, 0, 0};
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
#pragma GCC visibility pop
