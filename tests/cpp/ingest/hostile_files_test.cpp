// Malicious files: code, impossible lengths, deep nesting, memo tricks. They are refused or read as
// far as they make sense, and never use more memory than a bounded multiple of their size.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "ingest/small_snapshot.h"

namespace gpumemprof::test {
namespace {

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (std::size_t index = 0; index < times; ++index) all += text;
  return all;
}

std::string bytes(std::initializer_list<int> values) {
  std::string all;
  for (const int value : values) all += static_cast<char>(value);
  return all;
}

// Either outcome is fine, as long as there is one: a sentence with a byte offset, or a cut point.
void expect_refused_or_cut(std::string_view file, const std::string& word = "") {
  const Read read = read_bytes(file);
  if (read) {
    ASSERT_TRUE(read.value()->origin().cut.has_value());
    EXPECT_NE(read.value()->origin().cut->reason.find(word), std::string::npos)
        << read.value()->origin().cut->reason;
  } else {
    EXPECT_EQ(read.error().code, ErrorCode::bad_input);
    EXPECT_NE(read.error().where.find("byte "), std::string::npos) << read.error().sentence();
    EXPECT_NE(read.error().message.find(word), std::string::npos) << read.error().sentence();
  }
}

struct Refused {
  const char* name;
  std::string opcodes;
  std::string quoted;
};

class Code : public testing::TestWithParam<Refused> {};

TEST_P(Code, is_refused_by_name_wherever_it_stands) {
  const std::string whole = pickled(small_snapshot(), 2);
  const std::string before = whole.substr(0, whole.size() - 1);
  for (const std::string& start : {std::string("\x80\x04"), std::string("\x80\x04]("), before}) {
    const Read read = read_bytes(start + GetParam().opcodes);
    ASSERT_FALSE(read.ok()) << "a file that names code must be refused as a whole";
    EXPECT_EQ(read.error().code, ErrorCode::bad_input);
    EXPECT_NE(read.error().message.find(GetParam().quoted), std::string::npos)
        << read.error().sentence();
    EXPECT_NE(read.error().where.find("byte "), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Hostile, Code,
    testing::Values(
        Refused{"global", "cos\nsystem\n(S'true'\ntR.", "GLOBAL os.system"},
        Refused{"cut_global", "cos", "GLOBAL"}, Refused{"cut_global_name", "cos\nsys", "GLOBAL"},
        Refused{"stack_global", "\x8c\x02os\x8c\x06system\x93)R.", "STACK_GLOBAL os.system"},
        Refused{"bare_stack_global", "\x93", "STACK_GLOBAL"},
        Refused{"stack_global_of_numbers", "K\x01K\x02\x93", "STACK_GLOBAL"},
        Refused{"reduce", ")R.", "REDUCE"}, Refused{"build", "}b.", "BUILD"},
        Refused{"inst", "(ios\nsystem\n.", "INST os.system"}, Refused{"obj", "(o.", "OBJ"},
        Refused{"newobj", "))\x81.", "NEWOBJ"}, Refused{"newobj_ex", ")})\x92.", "NEWOBJ_EX"},
        Refused{"ext1", "\x82\x01.", "EXT1"}, Refused{"ext2", bytes({0x83, 1, 0, '.'}), "EXT2"},
        Refused{"ext4", bytes({0x84, 1, 0, 0, 0, '.'}), "EXT4"},
        Refused{"persid", "Pid\n.", "PERSID"}, Refused{"binpersid", "K\x01Q.", "BINPERSID"},
        Refused{"next_buffer", "\x97.", "NEXT_BUFFER"},
        Refused{"readonly_buffer", "\x97\x98.", "NEXT_BUFFER"}),
    [](const auto& run) { return std::string(run.param.name); });

TEST(Lengths, of_a_quintillion_bytes_are_not_believed) {
  const std::string quintillion = bytes({0x00, 0x00, 0x64, 0xa7, 0xb3, 0xb6, 0xe0, 0x0d});
  const std::string most = bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
  const std::string four = bytes({0xff, 0xff, 0xff, 0xff});
  const std::string four_signed = bytes({0xff, 0xff, 0xff, 0x7f});
  for (const std::string& length : {quintillion, most}) {
    for (const char opcode : {'\x8d', '\x8e', '\x96'}) {  // BINUNICODE8, BINBYTES8, BYTEARRAY8
      expect_refused_or_cut("\x80\x04](" + std::string(1, opcode) + length + "abc");
    }
  }
  for (const std::string& length : {four, four_signed}) {
    for (const char opcode : {'X', 'T', 'B', '\x8b'}) {  // BINUNICODE, BINSTRING, BINBYTES, LONG4
      expect_refused_or_cut("\x80\x04](" + std::string(1, opcode) + length + "abc");
    }
  }
}

// A frame's length is only a hint for buffering: whatever it says, only the data matters.
TEST(Lengths, of_frames_do_not_matter) {
  const std::string whole = pickled(small_snapshot());
  for (const char byte : {'\0', '\x01', '\xff'}) {
    std::string changed = whole;
    for (std::size_t index = 3; index < 11; ++index) changed[index] = byte;
    const Read read = read_bytes(changed);
    ASSERT_TRUE(read.ok()) << read.error().sentence();
    EXPECT_EQ(described(*read.value()), described(*read_object(small_snapshot())));
  }
}

TEST(Lengths, that_reach_past_the_end_cut_the_file_there) {
  const std::string whole = pickled(small_snapshot(), 2);
  const std::string before = whole.substr(0, whole.size() - 1);
  for (const char opcode : {'\x8c', 'U', 'C', '\x8a'}) {  // one byte of length
    expect_refused_or_cut(before + opcode + "\x7fonly a little", "ends inside");
  }
  // A text exactly as long as the reader's smallest step, cut by one byte.
  expect_refused_or_cut(before + "\x8c\x0e" + "free_requeste", "ends inside");
}

class Nesting : public testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(Nesting, of_a_million_levels_needs_no_recursion) {
  const std::string& level = GetParam().second;
  expect_refused_or_cut("\x80\x04" + repeated(level, 1000000));
  const Read closed = read_bytes("\x80\x04" + repeated(level, 1000000) + ".");
  if (!closed) {
    EXPECT_EQ(closed.error().code, ErrorCode::bad_input);
  }
}

INSTANTIATE_TEST_SUITE_P(Hostile, Nesting,
                         testing::Values(std::pair{"tuples", std::string("\x85")},
                                         std::pair{"open_tuples", std::string("(")},
                                         std::pair{"tuples_of_one", std::string(")\x85")},
                                         std::pair{"lists", std::string("]")},
                                         std::pair{"open_lists", std::string("](")},
                                         std::pair{"memoised_lists", std::string("]\x94")},
                                         std::pair{"dicts", std::string("}")},
                                         std::pair{"open_dicts", std::string("}(K\x01")},
                                         std::pair{"closed_lists", std::string("(l")},
                                         std::pair{"closed_dicts", std::string("(d")},
                                         std::pair{"copies", std::string("N2")},
                                         std::pair{"closed_tuples", std::string("(Nt")}),
                         [](const auto& run) { return std::string(run.param.first); });

TEST(Nesting, of_a_million_closed_levels_is_refused_as_no_snapshot) {
  for (const auto& [open, close] :
       {std::pair{"](", "e"}, std::pair{"}(K\x01", "u"}, std::pair{"(", "t"}}) {
    const Read read =
        read_bytes("\x80\x04" + repeated(open, 1000000) + "N" + repeated(close, 1000000) + ".");
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, ErrorCode::bad_input);
  }
}

TEST(Memo, places_far_away_take_no_room) {
  expect_refused_or_cut("\x80\x02]r" + bytes({0xff, 0xff, 0xff, 0xff}) + "0");
  const Read far = read_bytes("\x80\x02]r" + bytes({0xff, 0xff, 0xff, 0xff}) + "0j" +
                              bytes({0xff, 0xff, 0xff, 0xff}) + ".");
  EXPECT_TRUE(far.ok()) << "an empty list is a snapshot of nothing";
  expect_refused_or_cut("]p99999999999999999999999\n0");
  expect_refused_or_cut("]p-1\n0");
  std::string many = "\x80\x02N";
  for (std::uint32_t place = 0; place < 100000; ++place) {
    const std::uint32_t far_place = place * 40000;
    many += 'r';
    for (unsigned shift = 0; shift < 32; shift += 8) many += static_cast<char>(far_place >> shift);
  }
  expect_refused_or_cut(many);
}

TEST(Memo, places_that_were_never_stored_cut_the_file) {
  expect_refused_or_cut("\x80\x04](h\x05", "memo place 5");
  expect_refused_or_cut("\x80\x04](j" + bytes({0x10, 0x27, 0, 0}) + "e", "memo place 10000");
  expect_refused_or_cut("(lg77\na", "memo place 77");
}

TEST(Memo, places_out_of_order_are_found) {
  // Stored at 100, then 0 to 120 are filled around it.
  std::string file =
      "\x80\x02"
      "X" +
      bytes({8, 0, 0, 0}) +
      "segments"
      "q\x64"
      "0";
  for (int place = 0; place <= 120; ++place) {
    if (place != 100) file += "Nq" + bytes({place}) + "0";
  }
  file += "}h\x64]s.";
  const Read read = read_bytes(file);
  ASSERT_TRUE(read.ok()) << read.error().sentence();
  EXPECT_TRUE(read.value()->origin().has_segments);
}

TEST(Memo, tuples_that_double_through_the_memo_stay_small) {
  std::string file = "\x80\x04N\x94";
  for (int level = 0; level < 200; ++level) file += "h" + bytes({level}) + "2\x86\x94";
  const Read read = read_bytes(file + ".");
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("tuple"), std::string::npos);
}

// The same long list of events for each of many devices, or of blocks for each of many segments.
TEST(Memo, lists_that_multiply_through_the_memo_stay_small) {
  PyRef trace = py_list();
  for (std::int64_t event = 0; event < 2000; ++event)
    trace->items.push_back(py_event("alloc", kBase + 512 * event, 1));
  PyRef snapshot = py_snapshot({}, {});
  for (int device = 0; device < 3000; ++device)
    at(snapshot, "device_traces")->items.push_back(trace);
  const PyRef segment = py_segment(0, kBase, 2 << 20, {});
  for (std::int64_t block = 0; block < 2000; ++block) {
    at(segment, "blocks")
        ->items.push_back(py_block(kBase + 512 * block, 512, 1, "active_allocated"));
  }
  for (int copy = 0; copy < 3000; ++copy) at(snapshot, "segments")->items.push_back(segment);
  const auto store = read_object(snapshot);
  std::size_t blocks = 0;
  for (const auto& device : store->devices()) blocks += device->final_state.blocks.size();
  EXPECT_LE(store->event_count(), 2000U);
  EXPECT_LE(blocks, 2000U);
}

TEST(Devices, without_number_stay_within_reason) {
  PyRef snapshot = py_snapshot({}, {});
  for (int device = 0; device < 70000; ++device) {
    at(snapshot, "device_traces")->items.push_back(py_list({py_event("alloc", kBase, 1)}));
  }
  at(snapshot, "segments")->items.push_back(py_segment(1LL << 40, kBase, 512, {}));
  at(snapshot, "segments")->items.push_back(py_segment(-(1LL << 40), kBase, 512, {}));
  const auto store = read_object(snapshot);
  EXPECT_LE(store->devices().size(), 1025U);
  for (const auto& device : store->devices()) EXPECT_GE(device->device, kHostDevice);
}

TEST(Containers, that_hold_themselves_are_harmless) {
  const std::string key = "\x8c\x08segments";
  const std::string traces =
      "\x8c\x0d"
      "device_traces";
  for (const std::string& file : std::initializer_list<std::string>{
           "\x80\x04]\x94h" + bytes({0}) + "a.",                      // l.append(l)
           "\x80\x04]\x94(h" + bytes({0}) + "h" + bytes({0}) + "e.",  // l.extend([l, l])
           "\x80\x04}\x94" + key + "h" + bytes({0}) + "s.",           // d["segments"] = d
           "\x80\x04}\x94" + traces + "]\x94h" + bytes({1}) + "as.",  // a trace that holds itself
           "\x80\x04}" + traces +
               "](](}(\x8c\x06"
               "action\x8c\x05"
               "alloc\x8c\x06"
               "frames]\x94h" +
               bytes({0}) + "aueeu.",
           "\x80\x04}\x94(h" + bytes({0}) + "h" + bytes({0}) + "u."}) {  // a dict as its own key
    const Read read = read_bytes(file);
    if (read) {
      EXPECT_LE(read.value()->event_count(), 1U);
    } else {
      EXPECT_EQ(read.error().code, ErrorCode::bad_input) << read.error().sentence();
    }
  }
}

TEST(Opcodes, without_what_they_need_cut_the_file) {
  const std::string all =
      "0"
      "1"
      "2"
      "a"
      "e"
      "s"
      "u"
      "t"
      "l"
      "d"
      "q"
      "r"
      "\x85\x86\x87\x90\x91\x94"
      "."
      "h"
      "j"
      "g";
  for (const char opcode : all) {
    for (const std::string& stack :
         {std::string(), std::string("("), std::string("N"), std::string("N("), std::string("(N"),
          std::string("(("), std::string("N(N"), std::string("K\x01K\x02"), std::string("]N("),
          std::string("}(N"), std::string("})"), std::string(")("), std::string("N(N(N")}) {
      const std::string file = "\x80\x04" + stack + opcode;
      const Read plain = read_bytes(file);
      EXPECT_FALSE(plain.ok()) << testing::PrintToString(file);
      const Read padded = read_bytes(file + std::string(8, '\0') + "N.");
      EXPECT_FALSE(padded.ok()) << testing::PrintToString(file);
    }
  }
}

TEST(Opcodes, may_not_reach_below_a_mark) {
  const std::string start =
      "\x80\x04}\x8c\x0d"
      "device_traces](";
  for (const std::string& reach :
       {std::string("a"), std::string("s"), std::string("Na"), std::string("NNs"),
        std::string("(e"), std::string("(u"), std::string("\x86"), std::string("N\x86")}) {
    const Read read = read_bytes(start + reach + std::string(20, '\0'));
    EXPECT_FALSE(read.ok()) << testing::PrintToString(reach);
  }
}

TEST(Opcodes, of_newer_protocols_are_refused) {
  expect_refused_or_cut("\x80\x06}.", "protocol 6");
  expect_refused_or_cut("\x80\xff}.", "protocol 255");
}

}  // namespace
}  // namespace gpumemprof::test
