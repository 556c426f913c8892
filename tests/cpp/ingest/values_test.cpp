// Numbers and texts at the limits of what a field can hold.
#include <gtest/gtest.h>

#include <limits>

#include "ingest/small_snapshot.h"

namespace gpumemprof::test {
namespace {

class Values : public testing::TestWithParam<int> {
 protected:
  // An event's address, after a round trip through the pickle.
  [[nodiscard]] std::uint64_t address(const PyRef& number) const {
    PyRef event = py_event("alloc", 0, 512);
    set(event, "addr", number);
    return read_object(py_snapshot({}, {py_list({event})}), GetParam())
        ->devices()
        .at(0)
        ->events.address[0];
  }
};

TEST_P(Values, addresses_of_any_width_are_exact) {
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t number : {power - 1, power, power + 1}) {
      EXPECT_EQ(address(py_uint(number)), number);
    }
  }
  EXPECT_EQ(address(py_uint(~std::uint64_t{0})), ~std::uint64_t{0});
}

TEST_P(Values, negative_numbers_are_taken_as_the_same_bits) {
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t number = -(std::int64_t{1} << bit);
    EXPECT_EQ(address(py_int(number)), static_cast<std::uint64_t>(number));
  }
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(address(py_int(lowest)), static_cast<std::uint64_t>(lowest));
}

TEST_P(Values, a_stream_is_a_raw_pointer) {
  PyRef event = py_event("alloc", kBase, 512);
  set(event, "stream", py_uint(0xFFFF'FFFF'FFFF'FFF0U));
  const auto store = read_object(py_snapshot({}, {py_list({event})}), GetParam());
  EXPECT_EQ(store->stream_handle(store->devices().at(0)->events.stream[0]), 0xFFFF'FFFF'FFFF'FFF0U);
}

TEST_P(Values, pools_of_any_number_are_told_apart) {
  const auto with_pool = [](std::uint64_t graph, std::uint64_t user) {
    PyRef event = py_event("alloc", kBase, 512);
    set(event, "pool_id", py_tuple({py_uint(graph), py_uint(user)}));
    return event;
  };
  const std::vector<PoolId> pools = {{0, 0},        {1, 0},        {0, 1},        {1U << 27, 3},
                                     {1U << 28, 3}, {3, 1U << 28}, {~0ULL, ~0ULL}};
  PyRef trace = py_list();
  for (const PoolId pool : pools) trace->items.push_back(with_pool(pool.graph, pool.user));
  const auto store = read_object(py_snapshot({}, {trace}), GetParam());
  for (std::size_t event = 0; event < pools.size(); ++event) {
    EXPECT_EQ(store->pool(store->devices().at(0)->events.pool[event]), pools[event]);
  }
  EXPECT_EQ(store->pool_count(), pools.size());
}

TEST_P(Values, a_time_that_cannot_be_is_not_made_up) {
  PyRef event = py_event("alloc", kBase, 512);
  for (const std::uint64_t time :
       {std::uint64_t{1} << 54, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    set(event, "time_us", py_uint(time));
    PyRef snapshot = py_snapshot({}, {py_list({event})});
    set(snapshot, "external_annotations",
        py_list({py_dict({{"name", py_text("n")},
                          {"stage", py_text("START")},
                          {"device", py_uint(time)},
                          {"time_us", py_uint(time)}})}));
    const auto store = read_object(snapshot, GetParam());
    EXPECT_EQ(store->devices().at(0)->events.time_ns[0], kUnknownTime);
    EXPECT_EQ(store->annotations().at(0).time_ns, kUnknownTime);
  }
}

INSTANTIATE_TEST_SUITE_P(Pickle, Values, testing::Range(0, 6));

TEST(Texts, are_made_valid_where_they_enter) {
  PyRef snapshot = small_snapshot();
  const std::string broken = "caf\xE9 \xED\xA0\x80 \xFF";
  set(at(snapshot, "device_traces")->items[0]->items[1], "frames",
      py_list(
          {py_frame(broken, "/\xC3\xBC\xE6\x96\x87.py", 1), py_frame("\xF0\x9F\x94\xA5", "b", 1)}));
  for (const int protocol : {1, 2, 4}) {
    const auto store = read_object(snapshot, protocol);
    const std::string stack = described_stack(*store, store->devices().at(0)->events.stack[1]);
    EXPECT_EQ(stack, " caf\uFFFD \uFFFD\uFFFD\uFFFD \uFFFD@/\u00FC\u6587.py:1 \U0001F525@b:1");
  }
}

TEST(Texts, of_protocol_0_may_have_escapes) {
  // V takes only \u escapes; S is a quoted Python 2 text.
  const auto label = [](const std::string& opcodes) -> std::string {
    // {"device_traces": [[{"action": "alloc", "addr": 64, "user_metadata": …}]]}
    const std::string bytes =
        "(dVdevice_traces\n(l(l(dVaction\nValloc\nsVaddr\nI64\nsVuser_metadata\n" + opcodes +
        "saas.";
    const Read read = read_bytes(bytes);
    if (!read) return read.error().sentence();
    const Store& store = *read.value();
    return std::string(store.text(store.devices().at(0)->events.row(0).user_metadata));
  };
  EXPECT_EQ(label("Vplain\n"), "plain");
  EXPECT_EQ(label("Vcaf\xE9\n"), "caf\u00E9");
  EXPECT_EQ(label("V\\u5185\\u005cn\n"), "\u5185\\n");
  EXPECT_EQ(label("V\\U0001f525\n"), "\U0001F525");
  EXPECT_EQ(label("V\\ud800\n"), "\uFFFD");
  EXPECT_EQ(label("S'quoted \\'\\x41\\\\'\n"), "quoted 'A\\");
  EXPECT_EQ(label("S\"double\"\n"), "double");
}

TEST(Texts, longer_than_the_read_window_are_whole) {
  PyRef snapshot = small_snapshot();
  const std::string name(3 << 20, 'x');
  set(at(snapshot, "device_traces")->items[0]->items[1], "user_metadata", py_text(name));
  for (const int protocol : {2, 4}) {
    const auto store = read_object(snapshot, protocol);
    EXPECT_EQ(store->text(store->devices().at(0)->events.row(1).user_metadata), name);
    EXPECT_EQ(store->devices().at(0)->events.size(), 6U);
  }
}

}  // namespace
}  // namespace gpumemprof::test
