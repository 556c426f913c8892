// A stand-in for torch's library that calls NCCL.
#include <cstddef>

#pragma GCC visibility push(default)
// NOLINTBEGIN(readability-identifier-naming): names by which capture looks for them.
extern "C" {

struct TorchId {
  char bytes[128];
};
int ncclCommInitRankConfig(void** comm, int ranks, TorchId id, int rank, void* config);
int ncclAllReduce(const void*, void*, std::size_t, int, int, void* comm, void* stream);
int ncclCommDestroy(void* comm);

void* fake_make_communicator() {
  TorchId id{};
  id.bytes[0] = 'i';
  id.bytes[127] = 'd';
  void* comm = nullptr;
  return ncclCommInitRankConfig(&comm, 1, id, 0, nullptr) == 0 ? comm : nullptr;
}
int fake_reduce(void* comm) { return ncclAllReduce(nullptr, nullptr, 1, 0, 0, comm, nullptr); }
int fake_end(void* comm) { return ncclCommDestroy(comm); }
}
// NOLINTEND(readability-identifier-naming)
#pragma GCC visibility pop
