// A truncated file is read as far as it goes, and the result says how far.
#include <gtest/gtest.h>

#include "ingest/small_snapshot.h"

namespace gpumemprof::test {
namespace {

std::size_t event_count(const Store& store) {
  return static_cast<std::size_t>(store.event_count());
}

// Where the dict of each event ends in the pickle: the lengths at which one more event is complete.
std::size_t events_before(const std::string& bytes, std::size_t cut,
                          const std::vector<std::size_t>& ends) {
  std::size_t count = 0;
  for (const std::size_t end : ends) count += end <= cut ? 1 : 0;
  return std::min(count, bytes.size());
}

struct Case {
  int protocol;
  PickleStyle style;
};

class CutFile : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] std::string bytes_of(const PyRef& object) const {
    return pickled(object, GetParam().protocol, GetParam().style);
  }

  // Reading a file cut anywhere is either refused with a sentence or says where it was cut.
  static void expect_honest(const Read& read, std::size_t cut) {
    if (!read) {
      EXPECT_EQ(read.error().code, ErrorCode::bad_input);
      EXPECT_NE(read.error().where.find("byte "), std::string::npos) << read.error().sentence();
      EXPECT_FALSE(read.error().message.empty());
      return;
    }
    const std::optional<CutPoint>& point = read.value()->origin().cut;
    ASSERT_TRUE(point.has_value()) << "cut at " << cut;
    EXPECT_LE(point->byte_offset, cut);
    EXPECT_GE(point->byte_offset + 64, cut);
    EXPECT_FALSE(point->reason.empty());
  }
};

TEST_P(CutFile, is_read_as_far_as_it_goes_at_every_byte) {
  const std::string bytes = bytes_of(small_snapshot());
  const Read whole = read_bytes(bytes);
  ASSERT_TRUE(whole.ok());
  std::size_t most = 0;
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    SCOPED_TRACE(testing::Message() << "cut at byte " << cut << " of " << bytes.size());
    const Read read = read_bytes(std::string_view(bytes).substr(0, cut));
    expect_honest(read, cut);
    if (HasFailure()) return;
    const std::size_t events = read ? event_count(*read.value()) : 0;
    EXPECT_GE(events, most) << "a longer file has fewer events";
    most = std::max(most, events);
    for (std::size_t event = 0; event < events; ++event) {
      EXPECT_EQ(read.value()->devices()[0]->events.address[event],
                whole.value()->devices()[0]->events.address[event]);
    }
  }
  EXPECT_EQ(most, 6U);
}

TEST_P(CutFile, has_every_event_that_was_whole_before_the_cut) {
  // Without shared objects inside the events each one ends where the next begins.
  PyRef snapshot = small_snapshot();
  const PyRef trace = at(snapshot, "device_traces")->items[0];
  std::vector<std::size_t> ends;
  const std::string bytes = bytes_of(snapshot);
  const std::size_t count = trace->items.size();
  for (std::size_t kept = 1; kept < count; ++kept) {
    PyRef shorter = small_snapshot();
    auto& items = at(shorter, "device_traces")->items[0]->items;
    items.resize(kept + 1);
    at(items[kept], "action") =
        py_text("\x01marker");  // the first byte at which the two files differ
    const std::string other = bytes_of(shorter);
    std::size_t same = 0;
    while (same < other.size() && other[same] == bytes[same]) ++same;
    // Protocol 4 stores the frame length near its start, which always differs.
    if (same < 12) {
      for (same = 12; same < other.size() && other[same] == bytes[same];) ++same;
    }
    ends.push_back(same);
  }
  ASSERT_GT(ends.front(), 100U);
  for (std::size_t cut = ends.front(); cut < bytes.size(); ++cut) {
    const Read read = read_bytes(std::string_view(bytes).substr(0, cut));
    ASSERT_TRUE(read.ok()) << read.error().sentence();
    ASSERT_GE(event_count(*read.value()), events_before(bytes, cut, ends)) << "cut at byte " << cut;
  }
}

TEST_P(CutFile, without_its_traces_says_nothing_of_the_end) {
  PyRef snapshot = small_snapshot();
  at(snapshot, "segments")->items.push_back(py_segment(0, kBase + (4 << 20), 2 << 20, {}));
  const std::string bytes = bytes_of(snapshot);
  const std::size_t traces = bytes.find("device_traces");
  ASSERT_NE(traces, std::string::npos);
  const Read read = read_bytes(std::string_view(bytes).substr(0, traces - 8));
  ASSERT_TRUE(read.ok()) << read.error().sentence();
  EXPECT_FALSE(read.value()->origin().has_segments);
  EXPECT_FALSE(read.value()->origin().has_traces);
}

TEST_P(CutFile, keeps_whole_traces_of_the_devices_before_the_cut) {
  const auto trace = [](std::int64_t events) {
    PyRef list = py_list();
    for (std::int64_t event = 0; event < events; ++event) {
      list->items.push_back(py_event("alloc", kBase + 512 * event, 512));
    }
    return list;
  };
  const std::string bytes = bytes_of(py_snapshot({}, {trace(3), py_list(), trace(40)}));
  const Read read = read_bytes(std::string_view(bytes).substr(0, bytes.size() * 3 / 4));
  ASSERT_TRUE(read.ok()) << read.error().sentence();
  ASSERT_EQ(read.value()->devices().size(), 2U);
  EXPECT_EQ(read.value()->devices()[0]->events.size(), 3U);
  EXPECT_EQ(read.value()->devices()[1]->device, 2);
  EXPECT_GT(read.value()->devices()[1]->events.size(), 5U);
}

TEST_P(CutFile, in_gzip_is_read_as_far_as_it_goes_at_every_byte) {
  const std::string bytes = gzipped(bytes_of(small_snapshot()));
  bool has_events = false;
  for (std::size_t cut = 0; cut + 8 < bytes.size(); ++cut) {
    const Read read = read_bytes(std::string_view(bytes).substr(0, cut));
    if (read) {
      has_events |= read.value()->event_count() > 0;
      // All bytes of the stream may be there before its checksum is.
      if (read.value()->origin().cut) {
        EXPECT_NE(read.value()->origin().cut->reason.find("gzip"), std::string::npos);
      }
    } else {
      EXPECT_EQ(read.error().code, ErrorCode::bad_input);
      EXPECT_NE(read.error().where.find("byte "), std::string::npos) << read.error().sentence();
    }
  }
  EXPECT_TRUE(has_events);
}

INSTANTIATE_TEST_SUITE_P(Pickle, CutFile,
                         testing::Values(Case{0, PickleStyle::python}, Case{1, PickleStyle::python},
                                         Case{2, PickleStyle::python}, Case{2, PickleStyle::torch},
                                         Case{4, PickleStyle::python},
                                         Case{5, PickleStyle::python}),
                         [](const auto& run) {
                           return (run.param.style == PickleStyle::torch ? "torch_" : "python_") +
                                  std::to_string(run.param.protocol);
                         });

TEST(CutFiles, of_a_bare_list_of_segments_do_not_claim_to_know_the_end) {
  const std::string bytes = pickled(at(small_snapshot(), "segments"));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    const Read read = read_bytes(std::string_view(bytes).substr(0, cut));
    if (!read) continue;
    EXPECT_TRUE(read.value()->origin().cut.has_value());
    EXPECT_FALSE(read.value()->origin().has_segments);
  }
}

TEST(CutFiles, damaged_in_the_middle_are_read_up_to_the_damage) {
  std::string bytes = pickled(small_snapshot());
  const std::size_t middle = bytes.find("free_requested");
  ASSERT_NE(middle, std::string::npos);
  bytes[middle - 2] = '\xfe';  // not an opcode
  const Read read = read_bytes(bytes);
  ASSERT_TRUE(read.ok()) << read.error().sentence();
  ASSERT_TRUE(read.value()->origin().cut.has_value());
  EXPECT_EQ(read.value()->origin().cut->byte_offset, middle - 2);
  EXPECT_NE(read.value()->origin().cut->reason.find("0xfe"), std::string::npos);
  EXPECT_EQ(read.value()->event_count(), 3U);
}

TEST(CutFiles, damaged_gzip_says_so) {
  const std::string bytes = pickled(small_snapshot());
  const std::size_t middle = bytes.find("free_requested");
  // A second member whose first block has an invalid type.
  const std::string broken =
      gzipped(bytes.substr(0, middle)) + gzipped("x").substr(0, 10) + "\x07 and more";
  const Read read = read_bytes(broken);
  ASSERT_TRUE(read.ok()) << read.error().sentence();
  ASSERT_TRUE(read.value()->origin().cut.has_value());
  EXPECT_EQ(read.value()->origin().cut->reason, "the gzip stream is damaged");
  EXPECT_EQ(read.value()->event_count(), 3U);
}

TEST(CutFiles, damaged_anywhere_never_break_the_reader) {
  PyRef snapshot = small_snapshot();
  auto& trace = at(snapshot, "device_traces")->items[0]->items;
  for (std::int64_t event = 0; event < 300; ++event)
    trace.push_back(py_event("alloc", kBase + 7919 * event, event));
  const std::string whole = pickled(snapshot);
  std::uint64_t random = 1;
  for (int round = 0; round < 3000; ++round) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    std::string bytes = whole;
    bytes[(random >> 20) % bytes.size()] = static_cast<char>(random >> 56);
    const Read read = read_bytes(bytes);
    if (!read) {
      EXPECT_EQ(read.error().code, ErrorCode::bad_input);
      EXPECT_NE(read.error().where.find("byte "), std::string::npos) << read.error().sentence();
      EXPECT_LT(read.error().sentence().size(), 500U) << read.error().sentence();
    }
  }
}

}  // namespace
}  // namespace gpumemprof::test
