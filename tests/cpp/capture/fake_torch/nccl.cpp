// A stand-in for NCCL: a communicator takes 100 bytes of the card, its first reduction 1,000.
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
// NOLINTBEGIN(readability-identifier-naming): names by which capture looks for them.
extern "C" {

extern unsigned long long fake_used_bytes;
std::uint64_t fake_told_bytes = 0;  // 0: an old library that does not say

struct FakeComm {
  bool has_buffers = false;
};
struct FakeId {
  char bytes[128];
};

int ncclCommInitRankConfig(void** comm, int, FakeId id, int, void*) {
  if (id.bytes[0] != 'i' || id.bytes[127] != 'd') return 4;
  *comm = new FakeComm;
  fake_used_bytes += 100;
  return 0;
}
int ncclAllReduce(const void*, void*, std::size_t, int, int, void* comm, void*) {
  auto* mine = static_cast<FakeComm*>(comm);
  if (!mine->has_buffers) fake_used_bytes += 1000;
  mine->has_buffers = true;
  return 0;
}
int ncclCommDestroy(void* comm) {
  fake_used_bytes -= static_cast<FakeComm*>(comm)->has_buffers ? 1100 : 100;
  delete static_cast<FakeComm*>(comm);
  return 0;
}
int ncclCommCuDevice(void*, int* device) {
  *device = 0;
  return 0;
}
int ncclCommMemStats(void*, int stat, std::uint64_t* value) {
  if (fake_told_bytes == 0 || stat != 3) return 3;
  *value = fake_told_bytes;
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
#pragma GCC visibility pop
