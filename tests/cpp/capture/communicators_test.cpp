// Against stand-ins for torch, NCCL and the driver's library that have the same names.
#include "capture/hooks/communicators.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>

namespace gpumemprof::capture {
namespace {

template <typename Type>
Type symbol_of(void* library, const char* name) {
  return reinterpret_cast<Type>(::dlsym(library, name));
}

std::map<std::string, std::string> facts_now() {
  const auto facts = communicator_facts();
  return {facts.begin(), facts.end()};
}

TEST(Communicators, their_bytes_are_inferred_from_the_card_unless_nccl_says) {
  void* driver = ::dlopen(FAKE_TORCH_FOLDER "/libnvidia-ml.so.1", RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(driver, nullptr) << ::dlerror();
  void* nccl = ::dlopen(FAKE_TORCH_FOLDER "/libnccl.so.2", RTLD_NOW);
  ASSERT_NE(nccl, nullptr) << ::dlerror();
  void* torch = ::dlopen(FAKE_TORCH_FOLDER "/libtorch_cuda.so", RTLD_NOW);
  ASSERT_NE(torch, nullptr) << ::dlerror();
  const auto make = symbol_of<void* (*)()>(torch, "fake_make_communicator");
  const auto reduce = symbol_of<int (*)(void*)>(torch, "fake_reduce");
  const auto end = symbol_of<int (*)(void*)>(torch, "fake_end");
  auto* told = symbol_of<std::uint64_t*>(nccl, "fake_told_bytes");

  watch_communicators(0, "GPU-fake");
  watch_communicators(1, "GPU-unknown");
  const std::map<std::string, std::string> none = {{"device 0 nccl_communicators", "0"},
                                                   {"device 1 nccl_communicators", "0"}};
  EXPECT_EQ(facts_now(), none);
  void* first = make();
  ASSERT_NE(first, nullptr);
  void* second = make();
  EXPECT_EQ(reduce(first), 0);
  std::map<std::string, std::string> facts = facts_now();
  EXPECT_EQ(facts["device 0 nccl_bytes"], "1200");
  EXPECT_EQ(facts["device 0 nccl_provenance"], "inferred");
  EXPECT_EQ(facts["device 0 nccl_communicators"], "2");

  EXPECT_EQ(end(second), 0);
  EXPECT_EQ(facts_now()["device 0 nccl_bytes"], "1200") << "the most at any time";

  *told = 700;
  facts = facts_now();
  EXPECT_EQ(facts["device 0 nccl_bytes"], "700");
  EXPECT_EQ(facts["device 0 nccl_provenance"], "measured");
  EXPECT_EQ(end(first), 0);
  EXPECT_EQ(facts_now()["device 0 nccl_bytes"], "700");
}

}  // namespace
}  // namespace gpumemprof::capture
