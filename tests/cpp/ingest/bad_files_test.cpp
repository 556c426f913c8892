// Files that are not snapshots get one sentence: what is wrong, at which byte, and what to do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ingest/small_snapshot.h"
#include "ingest/torch_snapshot.h"

namespace gpumemprof::test {
namespace {

using testing::TempDir;

Error error_of(std::string_view bytes) {
  Read read = read_bytes(bytes);
  EXPECT_FALSE(read.ok()) << "this should have been refused";
  if (read) return {};
  EXPECT_EQ(read.error().code, ErrorCode::bad_input);
  EXPECT_EQ(exit_code(read.error().code), 3);
  EXPECT_NE(read.error().where.find("byte "), std::string::npos) << read.error().sentence();
  EXPECT_EQ(read.error().sentence().find('\n'), std::string::npos);
  return read.error();
}

TEST(BadFile, that_is_missing_is_named) {
  const auto snapshot = TorchSnapshot::open("no/such/snapshot.pickle");
  ASSERT_FALSE(snapshot.ok());
  EXPECT_EQ(snapshot.error().code, ErrorCode::bad_input);
  EXPECT_NE(snapshot.error().sentence().find("no/such/snapshot.pickle"), std::string::npos);
}

TEST(BadFile, that_is_a_directory_is_refused) {
  const auto snapshot = TorchSnapshot::open(TempDir());
  ASSERT_FALSE(snapshot.ok());
  EXPECT_EQ(snapshot.error().code, ErrorCode::bad_input);
  EXPECT_NE(snapshot.error().sentence().find("this is a folder"), std::string::npos);
}

TEST(BadFile, that_is_empty_says_so) {
  EXPECT_NE(error_of("").message.find("empty"), std::string::npos);
  EXPECT_EQ(error_of("").where, "test.pickle, byte 0");
}

TEST(BadFile, that_is_text_says_so) {
  for (const char* text : {"step,loss\n1,2.5\n", "class Model(nn.Module):\n    pass\n",
                           "import torch\nprint(torch)\n", "# a page\n"}) {
    EXPECT_NE(error_of(text).message.find("text file"), std::string::npos) << text;
  }
}

TEST(BadFile, that_torch_save_wrote_is_recognised) {
  EXPECT_NE(error_of(std::string("PK\x03\x04") + std::string(100, 'x')).message.find("zip"),
            std::string::npos);
}

TEST(BadFile, of_random_bytes_is_refused) {
  std::uint64_t random = 42;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int index = 0; index < 200; ++index) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      bytes += static_cast<char>(random >> 56);
    }
    error_of(bytes);
    if (HasFailure()) return;
  }
}

TEST(BadFile, that_is_gzip_of_something_else_is_refused) {
  error_of(gzipped("just some text, no pickle"));
  error_of(gzipped(""));
  error_of("\x1f\x8b");
  error_of(std::string("\x1f\x8b") + std::string(50, '\xff'));
}

TEST(BadFile, that_holds_other_objects_says_what_it_holds) {
  EXPECT_NE(error_of(pickled(py_int(5))).message.find("single value"), std::string::npos);
  EXPECT_NE(error_of(pickled(py_text("x"))).message.find("text"), std::string::npos);
  EXPECT_NE(error_of(pickled(py_tuple({py_int(1), py_int(2)}))).message.find("tuple"),
            std::string::npos);
  EXPECT_NE(error_of(pickled(py_tuple({py_text("a")}))).message.find("tuple"), std::string::npos);
  EXPECT_NE(error_of(pickled(py_dict({{"a", py_int(1)}}))).message.find("segments"),
            std::string::npos);
  EXPECT_NE(error_of(pickled(py_list({py_int(1)}))).message.find("list"), std::string::npos);
  EXPECT_NE(error_of(pickled(py_dict({{"segments", py_int(1)}}))).message.find("segments"),
            std::string::npos);
  const PyRef events = at(small_snapshot(), "device_traces")->items[0];
  EXPECT_NE(error_of(pickled(events)).message.find("does not hold segments"), std::string::npos);
  error_of(pickled(py_none()));
  error_of(pickled(py_float(1)));
  error_of(pickled(py_bool(true)));
  error_of(pickled(py_bytes("abc")));
}

TEST(BadFile, that_became_a_record_by_accident_is_refused) {
  error_of(pickled(py_event("alloc", kBase, 1)));
  error_of(pickled(py_frame("a", "b", 1)));
  error_of(pickled(py_list({py_frame("a", "b", 1), py_frame("a", "b", 2)})));
  error_of(pickled(py_segment(0, kBase, 512, {})));
}

TEST(File, is_read_from_disk_with_progress_that_ends_at_its_size) {
  const std::string path =
      TempDir() + "gpumemprof_progress_" + std::to_string(::getpid()) + ".pickle";
  const std::string bytes = pickled(small_snapshot());
  std::ofstream(path, std::ios::binary) << bytes;
  std::uint64_t last = 0;
  auto snapshot = TorchSnapshot::open(path, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_EQ(total, bytes.size());
    EXPECT_GE(done, last);
    last = done;
  });
  ASSERT_TRUE(snapshot.ok());
  Store store;
  ASSERT_TRUE(snapshot.value()->deliver(store).ok());
  EXPECT_EQ(last, bytes.size());
  EXPECT_EQ(described(store), described(*read_object(small_snapshot())));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gpumemprof::test
