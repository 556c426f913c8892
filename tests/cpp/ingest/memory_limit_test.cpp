// Endless files: whatever they accumulate, the machine counts it and stops near its limit. Each
// runs in a process of its own, whose resident size shows whether the count is right.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "ingest/pickle/machine.h"
#include "ingest/snapshot_records.h"
#include "store/store.h"

namespace gpumemprof::test {
namespace {

constexpr std::size_t kLimit = std::size_t{64} << 20;
constexpr std::uint64_t kGiveUp = std::uint64_t{8} << 30;  // of bytes read

// A start, followed by one piece after another.
class EndlessSource final : public ByteSource {
 public:
  EndlessSource(std::string start, std::function<std::string(std::uint64_t)> piece)
      : rest_(std::move(start)), piece_(std::move(piece)) {}

  Result<std::size_t> read(std::span<std::byte> out) override {
    std::size_t filled = 0;
    while (filled < out.size()) {
      if (rest_.empty()) rest_ = piece_(count_++);
      const std::size_t take = std::min(rest_.size(), out.size() - filled);
      std::memcpy(out.data() + filled, rest_.data(), take);
      rest_.erase(0, take);
      filled += take;
    }
    total_ += filled;
    return total_ > kGiveUp ? 0 : filled;
  }

 private:
  std::string rest_;
  std::function<std::string(std::uint64_t)> piece_;
  std::uint64_t count_ = 0;
  std::uint64_t total_ = 0;
};

std::uint64_t resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
}

std::string number(std::uint64_t value) {
  std::string opcode = "\x8a\x08";
  for (unsigned shift = 0; shift < 64; shift += 8) opcode += static_cast<char>(value >> shift);
  return opcode;
}
std::string text(std::string_view value) {
  return std::string("\x8c") + static_cast<char>(value.size()) + std::string(value);
}
// Stored at memo indices 0, 1, 2 …
std::string keys(std::initializer_list<const char*> names) {
  std::string opcodes = "\x80\x04";
  for (const char* name : names) opcodes += text(name) + "\x94" + "0";
  return opcodes;
}
std::string get(int place) { return std::string("h") + static_cast<char>(place); }

struct Bomb {
  const char* name;
  std::string start;
  std::function<std::string(std::uint64_t)> piece;
  bool is_counted_ahead = false;  // takes most of its memory only when it is delivered
};

std::function<std::string(std::uint64_t)> always(std::string_view piece) {
  // Long pieces, so that the test does not spend its time making them.
  std::string many;
  while (many.size() < 4096) many += piece;
  return [many](std::uint64_t) { return many; };
}

std::vector<Bomb> bombs() {
  const std::string start = "\x80\x04";
  // 0 action, 1 addr, 2 stream, 3 pool_id, 4 alloc, 5 name, 6 filename, 7 line, 8 size, 9 state, 10
  // blocks, 11 total_size; 12 a frame, 13 another
  const std::string frames = keys({"action", "addr", "stream", "pool_id", "alloc", "name",
                                   "filename", "line", "size", "state", "blocks", "total_size"}) +
                             "}(" + get(5) + get(5) + get(6) + get(6) +
                             "u\x94"
                             "0" +
                             "}(" + get(5) + get(6) + get(6) + get(5) +
                             "u\x94"
                             "0";
  return {
      {"values", start, always("N")},
      {"marks", start, always("(")},
      {"lists", start, always("]")},
      {"dicts", start, always("}")},
      {"places", start + "N", always("\x94")},
      {"tuples", start, always(")0")},
      {"pairs", start,
       always("NN\x86"
              "0")},
      {"numbers", start,
       always("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
              "0")},
      {"reals", start,
       always("G\x01\x02\x03\x04\x05\x06\x07\x08"
              "0")},
      {"lists_of_one", start, always("]Na0")},
      {"dicts_of_one", start, always("}NNs0")},
      {"texts", start, [](std::uint64_t index) { return text(std::to_string(index)) + "0"; }},
      {"long_texts", start,
       [](std::uint64_t index) {
         return text(std::to_string(index) + std::string(200, 'x')) + "0";
       }},
      {"items", start + "](", always("N")},
      {"frames", frames,
       [](std::uint64_t index) {
         return "}(" + get(5) + get(5) + get(6) + get(6) + get(7) + number(index) + "u0";
       }},
      // Stacks that differ in their outermost frame share nothing.
      {"stacks", frames,
       [](std::uint64_t index) {
         std::string piece = "](";
         for (int depth = 0; depth < 400; ++depth) piece += get(12 + (depth * 7 % 3 == 0 ? 1 : 0));
         for (int bit = 0; bit < 40; ++bit) piece += get(12 + static_cast<int>(index >> bit & 1));
         return piece + "e0";
       }},
      {"events", frames,
       [](std::uint64_t index) {
         return "}(" + get(0) + get(4) + get(1) + number(index & 0xffffff) + "u0";
       }},
      {"streams", frames,
       [](std::uint64_t index) {
         return "}(" + get(0) + get(4) + get(2) + number(index << 8) + "u0";
       }},
      {"pools", frames,
       [](std::uint64_t index) {
         return "}(" + get(0) + get(4) + get(3) + number(index << 8) + "K\x01\x86u0";
       }},
      // One event, listed repeatedly.
      {"repeated_events",
       frames + "}(" + get(0) + get(4) +
           "u\x94"
           "0](",
       [](std::uint64_t) {
         std::string piece;
         for (int copy = 0; copy < 500; ++copy) piece += get(14) + get(14);
         return piece + "e(";
       },
       true},
      {"blocks", frames, always("}(" + get(9) + "N" + get(8) + "Nu0")},
      {"segments", frames, always("}(" + get(10) + "N" + get(11) + "Nu0")},
  };
}

class EndlessFile : public testing::TestWithParam<std::size_t> {};

TEST_P(EndlessFile, is_given_up_near_the_limit) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer has memory of its own";
#endif
  const Bomb bomb = bombs()[GetParam()];
  const pid_t child = fork();
  if (child == 0) {
    Store store;
    pickle::Heap heap;
    SnapshotRecords records(store, heap);
    EndlessSource source(bomb.start, bomb.piece);
    const std::uint64_t before = resident_bytes();
    pickle::Window window(source);
    const Result<pickle::Outcome> outcome = pickle::Machine(window, heap, records, kLimit).run();
    const bool is_refused =
        !outcome.ok() && outcome.error().message.find("64 MiB") != std::string::npos;
    const std::uint64_t grown = resident_bytes() - before;
    if (!is_refused) _exit(1);
    if (grown > 3 * kLimit) _exit(2);
    // A count far above the real usage would refuse valid files.
    _exit(grown < kLimit / 16 && !bomb.is_counted_ahead ? 3 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << bomb.name;
  EXPECT_EQ(WEXITSTATUS(status), 0)
      << bomb.name
      << ": 1 was not refused for its memory, 2 took far more than was counted, 3 took far less";
}

INSTANTIATE_TEST_SUITE_P(Hostile, EndlessFile, testing::Range<std::size_t>(0, bombs().size()),
                         [](const auto& run) { return std::string(bombs()[run.param].name); });

}  // namespace
}  // namespace gpumemprof::test
