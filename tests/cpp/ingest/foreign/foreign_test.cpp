// Traces of torch.profiler and profiles of JAX are read as recordings of what they contain, and say
// what they lack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>

#include "event/foreign/foreign_file.h"
#include "ingest/foreign/chrome_trace.h"
#include "ingest/foreign/jax_profile.h"
#include "ingest/foreign/proto_fields.h"
#include "store/store.h"

namespace gpumemprof {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string memory_event(double time_us, std::int64_t bytes, std::uint64_t address,
                         const std::string& more) {
  return R"({"ph":"i","name":"[memory]","ts":)" + std::to_string(time_us) + R"(,"args":{"Bytes":)" +
         std::to_string(bytes) + R"(,"Addr":)" + std::to_string(address) + more + "}}";
}

std::string cuda_total(std::uint64_t total) {
  return R"(,"Device Type":1,"Device Id":0,"Total Reserved":4096,"Total Allocated":)" +
         std::to_string(total);
}

std::unique_ptr<Store> read_trace(const std::string& text) {
  auto store = std::make_unique<Store>();
  const Status read = ChromeTrace::from_bytes(bytes_of(text), "t")->deliver(*store);
  EXPECT_TRUE(read) << (read ? "" : read.error().sentence());
  return store;
}

std::string fact(const Store& store, std::string_view name) {
  for (const auto& [key, value] : store.origin().facts)
    if (key == name) return value;
  return "";
}

template <typename Reader>
std::string refusal(const std::string& text) {
  Store store;
  const Status read = Reader::from_bytes(bytes_of(text), "t")->deliver(store);
  return read ? "" : read.error().sentence();
}

TEST(ChromeTrace, orders_events_of_several_threads_by_time) {
  const auto read = read_trace(R"({"traceEvents":[)" + memory_event(20, -512, 7, cuda_total(0)) +
                               "," + memory_event(10, 512, 7, cuda_total(512)) + "]}");
  const Store& store = *read;
  ASSERT_EQ(store.devices().size(), 1U);
  EXPECT_EQ(store.device_name(0), "cuda:0");
  const EventColumns& events = store.devices()[0]->events;
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events.action[0], Action::alloc);
  EXPECT_EQ(events.time_ns[0], 10'000);
  EXPECT_EQ(events.action[1], Action::free_requested);
  EXPECT_FALSE(store.facts().has_pool());
  EXPECT_EQ(store.origin().kind, kTraceOfProfiler);
  EXPECT_EQ(fact(store, "device 0 peak_reserved_bytes"), "4096");
}

TEST(ChromeTrace, counts_what_was_allocated_before_the_trace) {
  // 1,000 bytes are older: 300 of them are freed in the trace.
  const auto read = read_trace("[" + memory_event(1, 200, 8, cuda_total(1200)) + "," +
                               memory_event(2, -300, 9, cuda_total(900)) + "]");
  const Store& store = *read;
  const ListedState& start = store.devices()[0]->start_state;
  std::uint64_t sum = 0;
  for (const BlockState& block : start.blocks) sum += block.size_bytes;
  EXPECT_EQ(start.blocks.size(), 2U);
  EXPECT_EQ(sum, 1000U);
  EXPECT_THAT(fact(store, kLimitsFact), testing::Not(HasSubstr("events are missing")));
}

TEST(ChromeTrace, says_that_its_totals_do_not_add_up) {
  const auto read = read_trace("[" + memory_event(1, 200, 8, cuda_total(200)) + "," +
                               memory_event(2, 100, 9, cuda_total(900)) + "]");
  const Store& store = *read;
  EXPECT_THAT(fact(store, kLimitsFact), HasSubstr("After 1 of its events"));
}

TEST(ChromeTrace, leaves_out_the_cpu_beside_a_gpu) {
  const auto read = read_trace("[" + memory_event(1, 200, 8, cuda_total(200)) + "," +
                               memory_event(2, 64, 9, R"(,"Device Type":0,"Device Id":-1)") + "]");
  const Store& store = *read;
  EXPECT_EQ(store.devices().size(), 1U);
  EXPECT_THAT(fact(store, kLimitsFact), HasSubstr("1 memory event of another kind"));
}

TEST(ChromeTrace, keeps_nanoseconds_of_large_times) {
  const auto read = read_trace(
      R"([{"ph":"i","name":"[memory]","ts":4082382873584.741,"args":{"Bytes":4,"Addr":1}}])");
  const Store& store = *read;
  EXPECT_EQ(store.devices()[0]->events.time_ns[0], 4'082'382'873'584'741);
}

TEST(ChromeTrace, reads_a_truncated_trace_up_to_its_end) {
  const auto read =
      read_trace("[" + memory_event(1, 200, 8, cuda_total(200)) + R"(,{"ph":"i","na)");
  const Store& store = *read;
  EXPECT_EQ(store.devices()[0]->events.size(), 1U);
  EXPECT_TRUE(store.origin().cut.has_value());
}

TEST(ChromeTrace, survives_numbers_at_the_edge) {
  const std::string least = std::to_string(std::numeric_limits<std::int64_t>::min());
  const auto read =
      read_trace(R"([{"ph":"i","name":"[memory]","ts":1e300,"args":{"Bytes":1,"Addr":1}},)"
                 R"({"ph":"i","name":"[memory]","ts":-5,"args":{"Bytes":)" +
                 least +
                 R"(,"Addr":18446744073709551615,"Device Id":99999999}},)"
                 R"({"ph":"i","name":"[memory]","ts":7,"args":{"Bytes":)" +
                 least + R"(,"Addr":3}}])");
  const Store& store = *read;
  EXPECT_EQ(store.devices().size(), 1U);
}

TEST(ChromeTrace, reads_names_that_json_does_not_allow) {
  const auto read =
      read_trace("\xEF\xBB\xBF{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"\xFF\n\x1B\",\"ts\":1}," +
                 memory_event(1, 200, 8, cuda_total(200)) + "]}");
  EXPECT_EQ(read->devices()[0]->events.size(), 1U);
  EXPECT_FALSE(read->origin().cut.has_value());
  EXPECT_TRUE(looks_like_json(bytes_of("\xEF\xBB\xBF {}")));
  EXPECT_FALSE(looks_like_json(bytes_of("\xEF\xBB\xBF")));
}

TEST(ChromeTrace, reads_times_with_a_power_of_ten) {
  const auto read =
      read_trace(R"([{"ph":"i","name":"[memory]","ts":1.5e3,"args":{"Bytes":4,"Addr":1}},)"
                 R"({"ph":"i","name":"[memory]","ts":25E-1,"args":{"Bytes":4,"Addr":2}}])");
  const EventColumns& events = read->devices()[0]->events;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events.time_ns[0], 2500);
  EXPECT_EQ(events.time_ns[1], 1'500'000);
}

TEST(ChromeTrace, says_how_many_memory_events_it_could_not_read) {
  const auto read =
      read_trace("[" + memory_event(1, 200, 8, cuda_total(200)) +
                 R"(,{"ph":"i","name":"[memory]","ts":1,"args":{"Bytes":4}})"
                 R"(,{"ph":"i","name":"[memory]","ts":1e30,"args":{"Bytes":4,"Addr":2}}])");
  EXPECT_EQ(read->devices()[0]->events.size(), 1U);
  EXPECT_THAT(fact(*read, kLimitsFact),
              HasSubstr("Left out because they lack a size, an address or a time: 2"));
  EXPECT_THAT(refusal<ChromeTrace>(R"([{"ph":"i","name":"[memory]","args":{"Bytes":4}}])"),
              HasSubstr("no memory event of this trace has a size, an address and a time"));
}

TEST(ChromeTrace, keeps_differences_of_times_within_their_type) {
  const std::string most = "9223372036854775.807";
  const auto read = read_trace(
      R"([{"ph":"X","name":"ProfilerStep#1","ts":4611686018427387.0,"dur":4611686018427387.0},)"
      R"({"ph":"i","name":"[memory]","ts":)" +
      most + R"(,"args":{"Bytes":4,"Addr":1}},{"ph":"i","name":"[memory]","ts":-)" + most +
      R"(,"args":{"Bytes":4,"Addr":2}},)" + memory_event(1, 200, 8, "") + "]");
  EXPECT_EQ(read->devices()[0]->events.size(), 1U);
  EXPECT_TRUE(read->annotations().empty());
}

TEST(ChromeTrace, says_what_a_file_without_memory_lacks) {
  EXPECT_THAT(refusal<ChromeTrace>(R"({"traceEvents":[]})"), HasSubstr("has no memory events"));
  EXPECT_THAT(refusal<ChromeTrace>(R"({"traceEvents":[{"ph)"), HasSubstr("ends or is damaged"));
  EXPECT_EQ(refusal<ChromeTrace>(R"({"traceEvents":[{"ph":"X","name":"aten::add","ts":1}]})"),
            "t, byte 0: this trace has no memory events; make one with "
            "torch.profiler.profile(profile_memory=True) and export_chrome_trace(path)");
  EXPECT_EQ(refusal<ChromeTrace>(R"({"traceEvents":[{"ph":"X","name":"aten::add","ts":1},{"ph)"),
            "t, byte 58: this trace ends or is damaged here, and has no memory events before that; "
            "copy the file again, or export it again");
  EXPECT_THAT(refusal<ChromeTrace>(R"({"lr": 0.1})"), HasSubstr("no trace of a profiler"));
  EXPECT_THAT(refusal<ChromeTrace>("{oops"), HasSubstr("t, byte "));
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7U) text += static_cast<char>((value & 0x7FU) | 0x80U);
  return text + static_cast<char>(value);
}
std::string number(unsigned field, std::uint64_t value) {
  return varint(field << 3U) + varint(value);
}
std::string message(unsigned field, const std::string& content) {
  return varint(field << 3U | 2U) + varint(content.size()) + content;
}

// One sample of 3 buffers and 10 bytes on cuda:1, allocated by f at a.py:4.
std::string small_profile(const std::string& unit) {
  return message(1, number(1, 1) + number(2, 2)) + message(1, number(1, 3) + number(2, 4)) +
         message(2, message(1, varint(1)) + message(2, varint(3) + varint(10)) +
                        message(3, number(1, 5) + number(2, 6))) +
         message(4, number(1, 1) + message(4, number(1, 1) + number(2, 4))) +
         message(5, number(1, 1) + number(2, 7) + number(4, 8)) + message(6, "") +
         message(6, "allocations") + message(6, "count") + message(6, "space") + message(6, unit) +
         message(6, "device") + message(6, "cuda:1") + message(6, "f") + message(6, "a.py");
}

TEST(JaxProfile, lists_the_buffers_with_their_stacks) {
  const std::string text = small_profile("bytes");
  EXPECT_TRUE(looks_like_pprof(bytes_of(text)));
  Store store;
  ASSERT_TRUE(JaxProfile::from_bytes(bytes_of(text), "p")->deliver(store));
  ASSERT_EQ(store.devices().size(), 1U);
  EXPECT_EQ(store.device_name(store.devices()[0]->device), "cuda:1");
  const ListedState& start = store.devices()[0]->start_state;
  ASSERT_EQ(start.blocks.size(), 3U);
  EXPECT_EQ(start.blocks[0].size_bytes + start.blocks[1].size_bytes + start.blocks[2].size_bytes,
            10U);
  const Frame& frame = store.frame(store.stacks().frame(start.blocks[0].stack));
  EXPECT_EQ(store.text(frame.name), "f");
  EXPECT_EQ(store.text(frame.file), "a.py");
  EXPECT_EQ(frame.line, 4U);
  EXPECT_EQ(store.origin().kind, kProfileOfJax);
  EXPECT_THAT(fact(store, kLimitsFact), HasSubstr("one moment"));
}

TEST(JaxProfile, says_what_a_profile_of_time_lacks) {
  EXPECT_THAT(refusal<JaxProfile>(small_profile("nanoseconds")),
              HasSubstr("does not show JAX's device memory, but allocations, space; make one"));
  std::string heap = small_profile("bytes");
  heap.replace(heap.find("space"), 5, "inuse");  // as in heap profiles of other programs
  EXPECT_THAT(refusal<JaxProfile>(heap), HasSubstr("but allocations, inuse;"));
  EXPECT_THAT(refusal<JaxProfile>("\x0A\x05\x08"), HasSubstr("no pprof profile"));
}

TEST(JaxProfile, recognizes_profiles_that_begin_with_times) {
  const std::string type = message(1, number(1, 1) + number(2, 2));
  EXPECT_TRUE(looks_like_pprof(bytes_of(number(9, 1'794'991'589'212'884'062) + type)));
  EXPECT_TRUE(looks_like_pprof(bytes_of(number(9, 1) + number(10, 2) + type)));
  EXPECT_TRUE(looks_like_pprof(bytes_of(message(11, number(1, 1) + number(2, 2)))));
  EXPECT_FALSE(looks_like_pprof(bytes_of("HHHHPPPP")));
  EXPECT_FALSE(looks_like_pprof(bytes_of("Hello, world")));
  EXPECT_FALSE(looks_like_pprof(bytes_of("\x48")));
  EXPECT_FALSE(looks_like_pprof(bytes_of("")));
}

TEST(JaxProfile, shows_no_more_blocks_than_it_can_hold) {
  const std::string text =
      message(1, number(1, 1) + number(2, 2)) + message(1, number(1, 3) + number(2, 4)) +
      message(2, message(2, varint(std::uint64_t{1} << 40U) + varint(std::uint64_t{1} << 41U))) +
      message(6, "") + message(6, "allocations") + message(6, "count") + message(6, "space") +
      message(6, "bytes");
  Store store;
  ASSERT_TRUE(JaxProfile::from_bytes(bytes_of(text), "p")->deliver(store));
  EXPECT_EQ(store.devices()[0]->start_state.blocks.size(), 1U);
  EXPECT_THAT(fact(store, kLimitsFact), HasSubstr("shown as one block"));
}

}  // namespace
}  // namespace gpumemprof
