#include "capture/native/native_walker.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "capture/native/loaded_modules.h"
#include "capture/native/unwind_rows.h"

namespace gpumemprof::capture {
namespace {

using Addresses = std::vector<std::uintptr_t>;

NativeWalker& walker() {
  static NativeWalker one({});
  return one;
}

// Not inlined: it is the innermost frame of what it returns.
[[gnu::noinline]] Addresses walked(StackEnd end = {}) {
  static thread_local NativeAddresses all;
  const std::size_t count = walker().walk(all, end);
  Addresses found(all.begin(), all.begin() + static_cast<long>(count));
  asm volatile("" : : "r"(found.data()) : "memory");
  return found;
}

// A sanitizer's own backtrace() calls the C library's.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kFramesOfBacktrace = 1;
#else
constexpr int kFramesOfBacktrace = 0;
#endif

[[gnu::noinline]] Addresses listed_by_libc() {
  std::array<void*, 256> found{};
  const int count = ::backtrace(found.data(), found.size());
  Addresses addresses;
  for (int index = kFramesOfBacktrace; index < count; ++index)
    addresses.push_back(reinterpret_cast<std::uintptr_t>(found[static_cast<std::size_t>(index)]));
  return addresses;
}

// From the caller's caller on: the two are called from different lines.
Addresses outer(const Addresses& all) { return {all.begin() + 2, all.end()}; }

template <std::size_t kDepth>
[[gnu::noinline]] int nested(Addresses& ours, Addresses& theirs) {
  volatile int room[kDepth + 1] = {};
  if constexpr (kDepth == 0) {
    ours = walked();
    theirs = listed_by_libc();
  } else {
    nested<kDepth - 1>(ours, theirs);
  }
  return room[0];
}

TEST(NativeWalker, finds_what_the_c_library_finds) {
  Addresses ours;
  Addresses theirs;
  nested<30>(ours, theirs);
  EXPECT_GT(ours.size(), 30U);
  EXPECT_EQ(outer(ours), outer(theirs));
}

TEST(NativeWalker, follows_a_thread_to_its_start) {
  Addresses ours;
  Addresses theirs;
  std::thread([&] { nested<5>(ours, theirs); }).join();
  EXPECT_EQ(outer(ours), outer(theirs));
}

[[gnu::noinline]] int recursive(int depth, Addresses& found) {
  volatile int more = 1;
  if (depth == 0) {
    found = walked();
  } else {
    recursive(depth - 1, found);
  }
  return more;
}

// Each level needs a page of its own, and so more of the stack than there has been.
[[gnu::noinline]] int deepening(int depth, StackEnd& end, int& without) {
  volatile char page[4096];
  page[0] = static_cast<char>(depth);
  NativeAddresses found;
  if (walker().walk(found, end) == 0) ++without;
  if (depth > 0) deepening(depth - 1, end, without);
  return page[0];
}

// In a process of its own, whose stack has not grown yet.
TEST(NativeWalker, follows_the_main_threads_stack_however_far_it_grows) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    StackEnd end;
    int without = 0;
    deepening(600, end, without);
    ::_exit(without == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(NativeWalker, a_stack_deeper_than_asked_for_keeps_its_innermost_frames) {
  Addresses found;
  walker().set_depth(20);
  recursive(400, found);
  walker().set_depth(kUsualNativeDepth);
  ASSERT_EQ(found.size(), 21U);
  EXPECT_EQ(found.back(), kLeftOutCallers);
  EXPECT_EQ(found[10], found[11]);  // the recursive call
}

TEST(NativeWalker, a_depth_beyond_the_limit_is_the_limit) {
  Addresses found;
  walker().set_depth(100'000);
  recursive(1000, found);
  walker().set_depth(kUsualNativeDepth);
  EXPECT_EQ(found.size(), kMaxNativeDepth + 1);
}

#if defined(__x86_64__)
Addresses g_found;
void walk_here() { g_found = walked(); }

TEST(NativeWalker, ends_at_code_without_unwind_tables) {
  // sub rsp, 8; call rdi; add rsp, 8; ret
  constexpr std::array<unsigned char, 11> kCode = {0x48, 0x83, 0xEC, 0x08, 0xFF, 0xD7,
                                                   0x48, 0x83, 0xC4, 0x08, 0xC3};
  void* page =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  std::memcpy(page, kCode.data(), kCode.size());
  reinterpret_cast<void (*)(void (*)())>(page)(walk_here);
  ASSERT_GE(g_found.size(), 3U);
  EXPECT_EQ(g_found.back(), kUnknownCaller);
  EXPECT_EQ(g_found[g_found.size() - 2], reinterpret_cast<std::uintptr_t>(page) + 6);
  EXPECT_EQ(LoadedModules().find(g_found[g_found.size() - 2]), std::nullopt);
  ::munmap(page, 4096);
}

// A stack whose last page is followed by one that cannot be read.
struct OtherStack {
  static constexpr std::size_t kBytes = std::size_t{64} * 1024;
  OtherStack()
      : memory(static_cast<char*>(::mmap(nullptr, kBytes + 4096, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(memory + kBytes, 4096, PROT_NONE);
  }
  OtherStack(const OtherStack&) = delete;
  OtherStack& operator=(const OtherStack&) = delete;
  ~OtherStack() { ::munmap(memory, kBytes + 4096); }
  char* memory;
};

TEST(NativeWalker, stays_within_a_stack_that_the_program_made_itself) {
  const OtherStack stack;
  ucontext_t here;
  ucontext_t there;
  ::getcontext(&there);
  there.uc_stack.ss_sp = stack.memory;
  there.uc_stack.ss_size = OtherStack::kBytes;
  there.uc_link = &here;
  ::makecontext(&there, walk_here, 0);
  g_found.clear();
  ::swapcontext(&here, &there);
  EXPECT_GE(g_found.size(), 2U);
}

// Runs with a return address and a frame pointer that lead nowhere.
TEST(NativeWalker, a_broken_stack_ends_it) {
  const OtherStack stack;
  for (const std::uint64_t garbage :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0x10}, ~std::uint64_t{0},
        reinterpret_cast<std::uint64_t>(stack.memory) + OtherStack::kBytes,
        reinterpret_cast<std::uint64_t>(&walk_here) + 1, std::uint64_t{0x0000'7FFF'0000'0000}}) {
    auto* top = reinterpret_cast<std::uint64_t*>(stack.memory + OtherStack::kBytes) - 8;
    for (int word = 0; word < 8; ++word) top[word] = garbage;
    asm volatile(
        "mov %%rsp, %%rbx\n\t"
        "mov %%rbp, %%r12\n\t"
        "mov %0, %%rsp\n\t"
        "mov %1, %%rbp\n\t"
        "call *%2\n\t"
        "mov %%rbx, %%rsp\n\t"
        "mov %%r12, %%rbp\n\t"
        :
        : "r"(top), "r"(garbage), "r"(&walk_here)
        : "rbx", "r12", "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10",
          "r11");
    EXPECT_GE(g_found.size(), 1U);
  }
}

struct FoundThroughPlugin {
  Addresses ours;
  Addresses theirs;
};
FoundThroughPlugin g_through_plugin;
void walk_both() { g_through_plugin = {walked(), listed_by_libc()}; }

// Opens a library, has it call back, and closes it again; returns where its code was.
std::uintptr_t call_through(const char* path) {
  void* plugin = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(plugin, nullptr) << ::dlerror();
  void* call = ::dlsym(plugin, "call_back");
  reinterpret_cast<void (*)(void (*)())>(call)(walk_both);
  ::dlclose(plugin);
  return reinterpret_cast<std::uintptr_t>(call);
}

TEST(NativeWalker, follows_another_library_where_one_was_unloaded) {
  const char* const first = FAKE_TORCH_FOLDER "/libplugin_256.so";
  const char* const second = FAKE_TORCH_FOLDER "/libplugin_4096.so";
  const std::uintptr_t before = call_through(first);
  EXPECT_EQ(outer(g_through_plugin.ours), outer(g_through_plugin.theirs));
  // Until the recorder notices, a rule may be the wrong one, which does no harm.
  const std::uintptr_t after = call_through(second);
  if (before != after) GTEST_SKIP() << "the second library is not where the first was";
  EXPECT_GE(g_through_plugin.ours.size(), 2U);
  for (const char* path : {second, first, second}) {
    walker().forget_modules();
    call_through(path);
    EXPECT_EQ(outer(g_through_plugin.ours), outer(g_through_plugin.theirs)) << path;
  }
}

// A handler must not allocate.
NativeAddresses g_signal_stack;
std::size_t g_signal_frames = 0;
void on_signal(int /*number*/) {
  StackEnd end;
  g_signal_frames = walker().walk(g_signal_stack, end);
}

TEST(NativeWalker, ends_where_a_signal_interrupted_the_program) {
  struct sigaction before{};
  struct sigaction mine{};
  mine.sa_handler = on_signal;
  ::sigaction(SIGUSR1, &mine, &before);
  g_signal_frames = 0;
  ::raise(SIGUSR1);
  ::sigaction(SIGUSR1, &before, nullptr);
  ASSERT_GE(g_signal_frames, 2U);
  EXPECT_EQ(g_signal_stack[g_signal_frames - 1], kUnknownCaller);
}

TEST(NativeWalker, works_in_a_forked_child) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    Addresses ours;
    Addresses theirs;
    nested<10>(ours, theirs);
    ::_exit(outer(ours) == outer(theirs) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

TEST(NativeWalker, leaves_out_its_own_frames_and_what_the_interpreter_called) {
  const AddressRange own = code_of_module_at(reinterpret_cast<std::uintptr_t>(&walked));
  EXPECT_TRUE(own.holds(reinterpret_cast<std::uintptr_t>(&listed_by_libc)));
  NativeWalker recorder(own);
  NativeAddresses stack;
  StackEnd end;
  // All frames are our own, except those of the C library that started the program.
  const std::size_t count = recorder.walk(stack, end);
  for (std::size_t index = 0; index < count; ++index)
    EXPECT_FALSE(index == 0 && own.holds(stack[index]));
  NativeWalker with_python({});
  with_python.set_interpreter(own);
  EXPECT_EQ(with_python.walk(stack, end), 0U);
}

TEST(UnwindRule, keeps_what_it_says_in_one_word) {
  for (const std::int32_t frame : {0, 8, -8, 0x7FFF'FFFF, -0x7FFF'FFFF}) {
    for (const std::int32_t bp : {0, -16, 8, 0x7F'FFFF, -0x80'0000}) {
      const UnwindRule rule{UnwindRule::Frame::stored_at_bp, UnwindRule::Bp::lost, frame, bp};
      EXPECT_EQ(UnwindRule::unpacked(rule.packed()), rule);
    }
  }
}

TEST(UnwindRule, is_unknown_where_no_module_is) {
  EXPECT_EQ(read_unwind_rule(0x1234).frame, UnwindRule::Frame::unknown);
  EXPECT_EQ(read_unwind_rule(reinterpret_cast<std::uintptr_t>(&walker) + 1).frame,
            UnwindRule::Frame::from_sp);
}

TEST(LoadedModules, a_module_has_its_path_and_build_id) {
  LoadedModules modules;
  const auto place = modules.find(reinterpret_cast<std::uintptr_t>(&walked) + 1);
  ASSERT_TRUE(place);
  EXPECT_TRUE(modules.module(place->module).path.ends_with("_test"));
  // One that no sanitizer replaces.
  void* function = ::dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
  const auto libc = modules.find(reinterpret_cast<std::uintptr_t>(function) + 1);
  ASSERT_TRUE(libc);
  EXPECT_NE(modules.module(libc->module).path.find("libc"), std::string::npos);
  EXPECT_GE(modules.module(libc->module).build_id.size(), 16U);
  EXPECT_EQ(modules.find(0x1234), std::nullopt);
}

TEST(LoadedModules, a_module_opened_by_a_relative_path_has_its_whole_path) {
  const auto here = std::filesystem::current_path();
  const std::filesystem::path folder =
      std::filesystem::canonical(testing::TempDir()) / ("modules" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(FAKE_TORCH_FOLDER "/libnvidia-ml.so.1", folder / "plugin.so");
  std::filesystem::current_path(folder);
  void* plugin = ::dlopen("./plugin.so", RTLD_NOW | RTLD_LOCAL);
  std::filesystem::current_path(here);
  ASSERT_NE(plugin, nullptr) << ::dlerror();
  void* function = ::dlsym(plugin, "nvmlInit_v2");
  ASSERT_NE(function, nullptr) << ::dlerror();
  LoadedModules modules;
  const auto place = modules.find(reinterpret_cast<std::uintptr_t>(function) + 1);
  ASSERT_TRUE(place);
  EXPECT_EQ(modules.module(place->module).path, folder / "plugin.so");
  ::dlclose(plugin);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gpumemprof::capture
