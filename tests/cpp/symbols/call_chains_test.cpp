// Random C++ call chains, 200 for each of five compilations: every return address against the C
// library's own backtrace(), and every frame against binutils' addr2line.
//
// Return addresses, the number of frames, and each frame's file and line must be equal. Names must
// be equal where addr2line has a function's whole name. Where it does not (see is_known_otherwise),
// ours must be the same function by its bare name, or addr2line's must be a symbol at the address,
// which the frame is inlined into. The test's output says how many of the names were equal.
#include "symbols/call_chains.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "capture/native/loaded_modules.h"
#include "capture/native/native_walker.h"
#include "symbols/symbolizer.h"

namespace gpumemprof {
namespace {

constexpr int kChainsInLibrary = 200;

struct Build {
  const char* compiler;
  const char* flags;
};
constexpr std::array kBuilds = {
    Build{"g++", "-O0"},        Build{"g++", "-O1 -fomit-frame-pointer"},
    Build{"g++", "-O2"},        Build{"g++", "-O3 -gdwarf-4 -fno-omit-frame-pointer"},
    Build{"clang++-14", "-O2"},
};

// A folder that is removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "chainsXXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> piece;
  for (std::size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    output.append(piece.data(), got);
  ::pclose(pipe);
  return output;
}

// The return addresses that the leaf of a chain has seen, innermost first.
struct Seen {
  std::vector<std::uintptr_t> ours;
  std::vector<std::uintptr_t> theirs;
};
capture::NativeWalker* g_walker = nullptr;
capture::NativeAddresses g_stack;
capture::StackEnd g_stack_end;
std::vector<Seen> g_seen;

int leaf(int number) {
  Seen seen;
  const std::size_t count = g_walker->walk(g_stack, g_stack_end);
  seen.ours.assign(g_stack.begin(), g_stack.begin() + static_cast<long>(count));
  std::array<void*, 256> found{};
  const int all = ::backtrace(found.data(), found.size());
  for (int index = 0; index < all; ++index)
    seen.theirs.push_back(reinterpret_cast<std::uintptr_t>(found[static_cast<std::size_t>(index)]));
  // Both begin in this function, at different instructions.
  if (!seen.ours.empty()) seen.ours.erase(seen.ours.begin());
  if (!seen.theirs.empty()) seen.theirs.erase(seen.theirs.begin());
  g_seen.push_back(seen);
  return number;
}

// What addr2line says about addresses of a module, innermost first.
std::map<std::uint64_t, std::vector<SourceFrame>> addr2line(
    const std::string& module, const std::vector<std::uint64_t>& addresses, const Folder& folder) {
  std::ofstream list(folder.file("addresses"));
  for (const std::uint64_t address : addresses) list << native_address_text(address - 1) << '\n';
  list.close();
  const std::string output =
      output_of("addr2line -a -i -f -C -e " + module + " < " + folder.file("addresses"));
  std::map<std::uint64_t, std::vector<SourceFrame>> found;
  std::istringstream lines(output);
  std::string line;
  std::uint64_t address = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with("0x")) {
      address = std::stoull(line, nullptr, 16) + 1;
      continue;
    }
    SourceFrame frame;
    frame.name = line.substr(0, line.find(" [clone"));
    std::getline(lines, line);
    line = line.substr(0, line.find(" (discriminator"));
    const std::size_t colon = line.rfind(':');
    frame.file = std::filesystem::path(line.substr(0, colon)).lexically_normal();
    // "?" where the compiler gives a call no line.
    frame.line = static_cast<std::uint32_t>(std::atoi(line.c_str() + colon + 1));
    found[address].push_back(frame);
  }
  return found;
}

// The module's functions, by name: where their code is. One name may be that of several.
using Functions = std::multimap<std::string, std::pair<std::uint64_t, std::uint64_t>>;
Functions functions_of(const std::string& module) {
  Functions functions;
  std::istringstream lines(output_of("nm -C -S --defined-only " + module));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::string type;
    std::string name;
    words >> std::hex >> begin >> size >> type >> std::ws;
    if (words && std::getline(words, name))
      functions.emplace(name.substr(0, name.find(" [clone")), std::pair(begin, size));
  }
  return functions;
}

bool is_symbol_at(const Functions& functions, const std::string& name, std::uint64_t address) {
  const auto [first, last] = functions.equal_range(name);
  return std::any_of(first, last, [&](const auto& each) {
    return address - each.second.first < each.second.second;
  });
}

// Functions that no other unit may call have no linkage name in their debug information. addr2line
// then gives the bare name ("operator()", "apply<Leaf>"), where we may have the whole one; or, for
// the innermost of several frames, a symbol at the address: the function that all of them are
// inlined into, or another that the compiler found to be the same code. We then have the bare name
// of the inlined one.
bool is_known_otherwise(const std::string& theirs, const std::vector<SourceFrame>& ours,
                        std::size_t row, bool is_symbol) {
  const std::string& own = ours[row].name;
  if (theirs == own) return false;
  const bool is_bare = own == "operator()" || (!own.ends_with(')') && !own.ends_with("const"));
  if (row == 0 && ours.size() > 1 && is_bare && is_symbol) return true;
  const std::string bare = theirs.substr(0, theirs.find('<'));
  return own.find(bare + "(") != std::string::npos || own.find(bare + "<") != std::string::npos;
}

class CallChainTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(CallChainTest, every_frame_is_what_addr2line_says) {
  const Build& build = kBuilds[GetParam()];
  if (output_of(std::string("command -v ") + build.compiler).empty())
    GTEST_SKIP() << build.compiler << " is not installed";
  if (output_of("command -v addr2line").empty()) GTEST_SKIP() << "addr2line is not installed";
  const Folder folder;
  const std::string source = folder.file("chains.cpp");
  const std::string library = folder.file("chains.so");
  std::ofstream(source) << testing::CallChains(1000 + GetParam()).source(kChainsInLibrary);
  const std::string problems =
      output_of(std::string(build.compiler) + " -std=c++17 -g -fPIC -shared " + build.flags + " " +
                source + " -o " + library + " 2>&1");
  void* loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loaded, nullptr) << problems;
  const auto run_chain = reinterpret_cast<int (*)(int, int (*)(int))>(::dlsym(loaded, "run_chain"));

  capture::NativeWalker walker({});
  g_walker = &walker;
  g_seen.clear();
  for (int chain = 0; chain < kChainsInLibrary; ++chain) run_chain(chain, leaf);
  ASSERT_EQ(g_seen.size(), std::size_t{kChainsInLibrary});

  capture::LoadedModules modules;
  std::vector<std::uint64_t> addresses;
  NativeModule module;
  for (const Seen& seen : g_seen) {
    ASSERT_EQ(seen.ours, seen.theirs);
    for (const std::uintptr_t address : seen.ours) {
      const auto place = modules.find(address);
      ASSERT_TRUE(place.has_value());
      if (modules.module(place->module).path != library) continue;
      module = modules.module(place->module);
      addresses.push_back(place->address);
    }
  }
  std::ranges::sort(addresses);
  addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
  ASSERT_GT(addresses.size(), std::size_t{kChainsInLibrary});

  const auto expected = addr2line(library, addresses, folder);
  const Functions functions = functions_of(library);
  Symbolizer symbols;
  std::size_t inlined = 0;
  std::size_t known_otherwise = 0;
  std::size_t all = 0;
  for (const std::uint64_t address : addresses) {
    std::vector<SourceFrame> frames = symbols.frames_at(module, address);
    for (SourceFrame& frame : frames) {
      frame.file = std::filesystem::path(frame.file).lexically_normal();
      frame.name = frame.name.substr(0, frame.name.find(" [clone"));
    }
    inlined += frames.size() - 1;
    std::vector<SourceFrame> wanted = expected.at(address);
    for (std::size_t row = 0; row < std::min(wanted.size(), frames.size()); ++row) {
      const std::string& theirs = wanted[row].name;
      if (!is_known_otherwise(theirs, frames, row, is_symbol_at(functions, theirs, address - 1)))
        continue;
      wanted[row].name = frames[row].name;
      ++known_otherwise;
    }
    all += frames.size();
    EXPECT_THAT(frames, ::testing::ContainerEq(wanted)) << native_address_text(address);
  }
  EXPECT_GT(inlined, 0U);
  EXPECT_GT(all - known_otherwise, all / 3);  // these have the same names
  RecordProperty("frames", static_cast<int>(all));
  RecordProperty("same_names", static_cast<int>(all - known_otherwise));
  EXPECT_THAT(symbols.notes(), ::testing::IsEmpty());
  ::dlclose(loaded);
}

INSTANTIATE_TEST_SUITE_P(Compilers, CallChainTest,
                         ::testing::Range<std::size_t>(0, kBuilds.size()));

}  // namespace

void PrintTo(const SourceFrame& frame, std::ostream* out) {
  *out << frame.name << " at " << frame.file << ':' << frame.line;
}

}  // namespace gpumemprof
