// A stand-in for libFuzzer where the compiler has none: mutates seeds at random, with some
// knowledge of pickle.
//
//   snapshot_fuzzer [-seconds N] [-runs N] [-seed S] [-keep FOLDER] SEEDS…   files and folders
//   snapshot_fuzzer FILE                                                     runs one input as is
//
// The input that kills the process is left in FOLDER; its name is chosen before it runs.
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "mutator.h"

// A sanitizer that finds something must end in SIGABRT, where the input is kept. It looks these up
// in the executable. NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
[[gnu::visibility("default")]] const char* __asan_default_options() { return "abort_on_error=1"; }
[[gnu::visibility("default")]] const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}
#if defined(__SANITIZE_ADDRESS__)
void __sanitizer_print_stack_trace();
#endif
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using gpumemprof::fuzz::Bytes;
using gpumemprof::fuzz::Mutator;

struct Options {
  double seconds = 10;
  std::uint64_t runs = ~std::uint64_t{0};
  std::uint64_t seed = 1;
  std::string keep = ".";
  std::vector<std::string> seeds;
};

// Everything a dying process still needs is in plain memory.
const Bytes* current_input = nullptr;
char failure_path[4096];

void keep_current_input() {
  if (current_input == nullptr) return;
  std::FILE* file = std::fopen(failure_path, "wb");
  if (file == nullptr) return;
  std::fwrite(current_input->data(), 1, current_input->size(), file);
  std::fclose(file);
  std::fprintf(stderr, "the failing input is kept as %s\n", failure_path);
  current_input = nullptr;
}

void on_signal(int number) {
  keep_current_input();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "an exception escaped: %s\n", error.what());
    } catch (...) {
      std::fprintf(stderr, "something that is no exception was thrown\n");
    }
  }
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_print_stack_trace();  // nobody catches it, so the stack starts at the throw
#endif
  std::abort();
}

#if defined(__SANITIZE_ADDRESS__)
void limit_memory() {}  // the sanitizer's own address space is far larger than any limit
#else
void limit_memory() {
  const rlimit limit{std::size_t{4} << 30, std::size_t{4} << 30};
  setrlimit(RLIMIT_AS, &limit);
}
#endif

Options parse(int count, char** arguments) {
  Options options;
  for (int index = 1; index < count; ++index) {
    const std::string_view name = arguments[index];
    const bool has_value = name.starts_with('-') && index + 1 < count;
    constexpr std::string_view kLibFuzzerTime = "-max_total_time=";
    if (name.starts_with(kLibFuzzerTime)) {  // so that both kinds of build take the same flags
      options.seconds = std::strtod(arguments[index] + kLibFuzzerTime.size(), nullptr);
    } else if (has_value && name == "-seconds") {
      options.seconds = std::strtod(arguments[++index], nullptr);
    } else if (has_value && name == "-runs") {
      options.runs = std::strtoull(arguments[++index], nullptr, 10);
    } else if (has_value && name == "-seed") {
      options.seed = std::strtoull(arguments[++index], nullptr, 10);
    } else if (has_value && name == "-keep") {
      options.keep = arguments[++index];
    } else if (name.starts_with('-')) {
      std::fprintf(stderr, "unknown option %s\n", arguments[index]);
      std::exit(2);
    } else {
      options.seeds.emplace_back(name);
    }
  }
  return options;
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Bytes> read_seeds(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> seeds;
  seeds.reserve(files.size());
  for (const auto& file : files) seeds.push_back(read_file(file));
  return seeds;
}

void run(const Bytes& input) {
  // Of the processor: a busy machine makes no input slow.
  constexpr itimerval kTooSlow{{0, 0}, {60, 0}};
  // What waits forever uses no processor.
  constexpr unsigned kWaitsForeverSeconds = 1800;
  current_input = &input;
  setitimer(ITIMER_PROF, &kTooSlow, nullptr);
  alarm(kWaitsForeverSeconds);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  current_input = nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = parse(count, arguments);
  const std::vector<Bytes> seeds = read_seeds(options.seeds);
  if (seeds.empty()) {
    std::fprintf(stderr, "no seeds: name files or folders\n");
    return 2;
  }
  std::snprintf(failure_path, sizeof(failure_path), "%s/crash-%llu", options.keep.c_str(),
                static_cast<unsigned long long>(options.seed));
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGALRM, SIGPROF})
    std::signal(signal, on_signal);
  std::set_terminate(on_terminate);
  limit_memory();

  std::uint64_t runs = 0;
  for (const Bytes& seed : seeds) {
    run(seed);
    ++runs;
  }
  const bool is_single_file = count == 2 && !std::filesystem::is_directory(arguments[1]);
  Mutator mutator(seeds, options.seed);
  const auto start = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return runs >= options.runs || passed.count() >= options.seconds;
  };
  while (!is_single_file && !is_over()) {
    run(mutator.next());
    ++runs;
  }
  std::printf("%llu runs from %zu seeds, seed %llu: no failure\n",
              static_cast<unsigned long long>(runs), seeds.size(),
              static_cast<unsigned long long>(options.seed));
  return 0;
}
