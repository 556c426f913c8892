// The worked example in docs/format.md is a real file: what the writer produces, byte for byte, and
// what the reader reads.
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>

#include "support.h"

namespace gpumemprof::test {
namespace {

// The bytes of the code block that opens with ```hex; text after a # is a comment.
Bytes documented_bytes() {
  std::ifstream document(GPUMEMPROF_TEST_DATA "/../../docs/format.md");
  EXPECT_TRUE(document);
  Bytes bytes;
  bool is_inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("```")) {
      is_inside = line == "```hex";
      continue;
    }
    if (!is_inside) continue;
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      EXPECT_EQ(word.size(), 2U) << line;
      bytes.push_back(static_cast<std::uint8_t>(std::stoul(word, nullptr, 16)));
    }
  }
  return bytes;
}

Origin example_origin() {
  Origin origin;
  origin.kind = "gpumemprof";
  origin.has_traces = true;
  origin.facts = {{"torch", "2.11.0"}};
  return origin;
}

void add_example(EventSink& sink) {
  const Frame frame{sink.add_string("forward"), sink.add_string("net.py"), 12};
  const StackId stack = sink.add_stack(StackId(), sink.add_frame(frame));
  const std::uint32_t stream = sink.add_stream(0);
  EventColumns events;
  const std::uint64_t first = 0x7f0000000000;
  const std::uint64_t second = 0x7f0000000400;
  events.push_back({Action::alloc, first, 1000, stream, 5'000'000, stack, {}, {}, kNoPool, {}});
  events.push_back({Action::alloc, second, 4096, stream, 5'002'000, stack, {}, {}, kNoPool, {}});
  events.push_back(
      {Action::free_requested, first, 1000, stream, 5'302'000, {}, {}, {}, kNoPool, {}});
  events.push_back(
      {Action::free_completed, first, 1000, stream, 5'303'000, {}, {}, {}, kNoPool, {}});
  events.push_back({Action::alloc, first, 1000, stream, 5'304'000, stack, {}, {}, kNoPool, {}});
  sink.add_events(0, std::move(events));
}

TEST(FormatDocument, shows_what_the_writer_writes) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer =
      open_writer(folder.file("example.gmp"), {.compression_level = 0}, example_origin());
  add_example(*writer);
  ASSERT_TRUE(writer->close("exit 0"));
  EXPECT_EQ(documented_bytes(), read_bytes(folder.file("example.gmp")));
}

TEST(FormatDocument, shows_what_the_reader_reads) {
  Store expected;
  add_example(expected);
  expected.set_origin(example_origin());
  const Opened opened = open_bytes(documented_bytes());
  ASSERT_NE(opened.store, nullptr) << opened.refusal;
  EXPECT_FALSE(opened.store->origin().cut);
  EXPECT_EQ(describe(*opened.store), describe(expected));
  EXPECT_EQ(ended(*opened.store), "exit 0");
}

}  // namespace
}  // namespace gpumemprof::test
