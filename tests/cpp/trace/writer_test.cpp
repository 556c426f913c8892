// The writer: its file is valid at every moment, and errors are reported in one sentence.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "support.h"

namespace gpumemprof::test {
namespace {

EventColumns some_events(std::size_t count, std::uint32_t seed = 1) {
  EventColumns events;
  std::mt19937_64 random(seed);
  for (std::size_t index = 0; index < count; ++index) {
    events.push_back({Action::alloc,
                      random(),
                      random(),
                      0,
                      static_cast<std::int64_t>(random() >> 1),
                      {},
                      {},
                      {},
                      kNoPool,
                      {}});
  }
  return events;
}

TEST(TraceWriter, leaves_a_file_that_opens_after_every_flush) {
  const TempFolder folder;
  const std::string path = folder.file("growing.gmp");
  const std::unique_ptr<TraceWriter> writer = open_writer(path);
  for (std::size_t count = 0; count < 50; ++count) {
    const Opened opened = open_bytes(read_bytes(path));
    ASSERT_NE(opened.store, nullptr);
    EXPECT_FALSE(opened.store->origin().cut);
    EXPECT_EQ(ended(*opened.store), kNotClosed);
    EXPECT_EQ(opened.store->event_count(), count * 3);
    writer->add_events(static_cast<DeviceIndex>(count % 2), some_events(3));
    ASSERT_TRUE(writer->flush());
  }
}

TEST(TraceWriter, makes_no_file_before_there_is_an_event_if_told_so) {
  const TempFolder folder;
  const std::string path = folder.file("waits.gmp");
  TraceOptions options;
  options.waits_for_events = true;
  for (const std::size_t count : {0U, 5U}) {
    const std::unique_ptr<TraceWriter> writer = open_writer(path, options);
    ASSERT_TRUE(writer->flush());
    EXPECT_FALSE(std::filesystem::exists(path));
    writer->add_events(0, some_events(count));
    ASSERT_TRUE(writer->flush());
    EXPECT_EQ(std::filesystem::exists(path), count > 0);
    ASSERT_TRUE(writer->close("exit"));
    EXPECT_EQ(std::filesystem::exists(path), count > 0);
  }
  const Opened opened = open_bytes(read_bytes(path));
  EXPECT_EQ(opened.store->event_count(), 5);
  EXPECT_EQ(ended(*opened.store), "exit");
}

TEST(TraceWriter, takes_the_next_free_name_when_its_own_was_taken_since) {
  const TempFolder folder;
  TraceOptions options;
  options.waits_for_events = options.takes_free_name = true;
  options.second_name = folder.file("run.host.7.gmp");
  for (const char* name : {"run.gmp", "run.host.7.gmp", "run.host.7.2.gmp", "run.host.7.3.gmp"}) {
    const auto opened = TraceWriter::open(folder.file("run.gmp"), {}, {}, options);
    ASSERT_TRUE(opened);
    TraceWriter* writer = opened.value().get();
    writer->add_events(0, some_events(5));
    ASSERT_TRUE(writer->close("exit"));
    EXPECT_EQ(writer->path(), folder.file(name));
    EXPECT_EQ(open_bytes(read_bytes(folder.file(name))).store->event_count(), 5);
  }
}

TEST(TraceWriter, takes_the_next_free_folder_when_its_own_was_taken_since) {
  const TempFolder folder;
  TraceOptions options;
  options.waits_for_events = options.takes_free_name = options.makes_folder = true;
  for (const char* name : {"run.gmp", "run.2.gmp", "run.3.gmp"}) {
    const std::unique_ptr<TraceWriter> writer =
        open_writer(folder.file("run.gmp/chapter-000001.gmp"), options);
    writer->add_events(0, some_events(5));
    ASSERT_TRUE(writer->close("exit"));
    EXPECT_EQ(writer->path(), folder.file(std::string(name) + "/chapter-000001.gmp"));
  }
}

TEST(TraceWriter, writes_facts_before_anything_else) {
  const TempFolder folder;
  Origin origin;
  origin.kind = "gpumemprof";
  origin.facts = {{"torch", "2.11.0"}};
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("facts.gmp"), {}, origin);
  const Opened opened = open_bytes(read_bytes(folder.file("facts.gmp")));
  EXPECT_NE(describe(*opened.store).find("fact torch=2.11.0"), std::string::npos);
}

TEST(TraceWriter, writes_what_is_pending_when_it_goes_but_does_not_say_closed) {
  const TempFolder folder;
  open_writer(folder.file("dropped.gmp"))->add_events(0, some_events(5));
  const Opened opened = open_bytes(read_bytes(folder.file("dropped.gmp")));
  EXPECT_EQ(opened.store->event_count(), 5U);
  EXPECT_EQ(ended(*opened.store), kNotClosed);
}

TEST(TraceWriter, does_nothing_once_closed) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("closed.gmp"));
  ASSERT_TRUE(writer->close("exit 3"));
  const std::uint64_t size = writer->size_bytes();
  writer->add_events(0, some_events(5));
  writer->add_lost_events({});
  EXPECT_TRUE(writer->flush());
  EXPECT_TRUE(writer->close("again"));
  EXPECT_EQ(read_bytes(folder.file("closed.gmp")).size(), size);
}

TEST(TraceWriter, tells_of_a_path_it_cannot_write) {
  const TempFolder folder;
  const auto writer = TraceWriter::open(folder.file("no/such/folder.gmp"), {});
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::environment);
  EXPECT_NE(
      writer.error().sentence().find("folder.gmp: cannot be written (No such file or directory)"),
      std::string::npos);
}

TEST(TraceWriter, replaces_a_file_only_when_told_to) {
  const TempFolder folder;
  write_bytes(folder.file("precious.gmp"), {1, 2, 3});
  const auto writer = TraceWriter::open(folder.file("precious.gmp"), {});
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::usage);
  EXPECT_EQ(read_bytes(folder.file("precious.gmp")).size(), 3U);
}

TEST(TraceWriter, tells_of_a_full_disk) {
  TraceOptions options;
  options.existing = FileSink::Existing::replace;
  const auto writer = TraceWriter::open("/dev/full", {}, {}, options);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::environment);
  EXPECT_NE(writer.error().sentence().find("/dev/full: the disk is full"), std::string::npos);
}

// A file that may not grow past a limit behaves like a disk that fills up during the write.
TEST(TraceWriter, leaves_whole_blocks_when_the_disk_fills_up_midway) {
  const TempFolder folder;
  const std::string path = folder.file("cramped.gmp");
  struct rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = old;
  limit.rlim_cur = 60'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::unique_ptr<TraceWriter> writer = open_writer(path, {.events_per_block = 100});
  for (std::uint32_t batch = 0; batch < 50; ++batch) writer->add_events(0, some_events(100, batch));
  const Status status = writer->close("exit 0");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().sentence().find("the largest size allowed"), std::string::npos);
  const Opened opened = open_bytes(read_bytes(path));
  EXPECT_FALSE(opened.store->origin().cut) << "the torn block was taken back";
  EXPECT_GT(opened.store->event_count(), 500U);
  EXPECT_EQ(opened.store->event_count() % 100, 0U);
  ASSERT_TRUE(opened.store->origin().ending);
  EXPECT_TRUE(opened.store->origin().ending->is_closed) << "room for the end was kept";
  EXPECT_NE(opened.store->origin().ending->problem.find("the largest size"), std::string::npos);
}

TEST(TraceWriter, cannot_be_used_by_a_forked_child) {
  const TempFolder folder;
  const std::string path = folder.file("parent.gmp");
  std::unique_ptr<TraceWriter> writer = open_writer(path);
  writer->add_events(0, some_events(4));
  const pid_t child = ::fork();
  if (child == 0) {
    writer->add_events(0, some_events(1000));
    const bool wrote = writer->flush().ok();
    writer.reset();
    ::_exit(wrote ? 1 : 0);
  }
  int code = -1;
  ASSERT_EQ(::waitpid(child, &code, 0), child);
  EXPECT_EQ(code, 0);
  ASSERT_TRUE(writer->close("exit 0"));
  const Opened opened = open_bytes(read_bytes(path));
  EXPECT_FALSE(opened.store->origin().cut);
  EXPECT_EQ(opened.store->event_count(), 4U);
}

TEST(TraceWriter, refuses_to_write_what_could_not_be_read) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("wrong.gmp"));
  EventColumns events;
  events.push_back({Action::alloc, 1, 1, 0, 0, StackId(7), {}, {}, kNoPool, {}});
  writer->add_events(0, std::move(events));
  const Status status = writer->flush();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::bug);
  EXPECT_FALSE(writer->close("exit 0"));
  EXPECT_FALSE(open_bytes(read_bytes(folder.file("wrong.gmp"))).store->origin().cut);
}

TEST(TraceWriter, can_do_without_compression) {
  const TempFolder folder;
  for (const int level : {0, 1, 3}) {
    const std::unique_ptr<TraceWriter> writer =
        open_writer(folder.file("level.gmp"), {.compression_level = level});
    add_a_bit_of_everything(*writer, [&] { EXPECT_TRUE(writer->flush()); });
    ASSERT_TRUE(writer->close("exit 0"));
    EXPECT_EQ(describe(*open_bytes(read_bytes(folder.file("level.gmp"))).store),
              describe(*open_bytes(a_bit_of_everything()).store));
  }
}

}  // namespace
}  // namespace gpumemprof::test
