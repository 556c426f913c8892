#include "symbols/resolving_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "store/store.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A recording with one event, whose stack has these frames, outermost first.
class NativeRecording : public ::testing::Test {
 protected:
  struct Named {
    std::string name;
    std::string file;
    std::uint32_t line = 0;
  };
  void SetUp() override {
    path_ =
        std::filesystem::temp_directory_path() / ("native" + std::to_string(::getpid()) + ".gmp");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(const std::vector<NativeModule>& modules, const std::vector<Named>& frames) {
    Origin origin;
    origin.kind = "live";
    origin.device_type = "cpu";
    TraceOptions options;
    options.existing = FileSink::Existing::replace;
    auto writer = TraceWriter::open(path_, origin, {}, options);
    ASSERT_TRUE(writer);
    for (const NativeModule& module : modules) writer.value()->add_native_module(module);
    StackId stack;
    for (const Named& frame : frames) {
      stack = writer.value()->add_stack(
          stack, writer.value()->add_frame({writer.value()->add_string(frame.name),
                                            writer.value()->add_string(frame.file), frame.line}));
    }
    Event event;
    event.action = Action::alloc;
    event.address = 4096;
    event.size_bytes = 64;
    event.stack = stack;
    event.stream = writer.value()->add_stream(0);
    EventColumns events;
    events.push_back(event);
    writer.value()->add_events(0, std::move(events));
    ASSERT_TRUE(writer.value()->close("exit"));
  }
  // The frames of the event, outermost first, as "name file:line".
  std::vector<std::string> read(bool resolves = true) {
    store_ = std::make_unique<Store>();
    ResolvingSink resolving(*store_);
    const auto reader = TraceReader::open(path_);
    EXPECT_TRUE(reader);
    EXPECT_TRUE(reader.value()->deliver(resolves ? static_cast<EventSink&>(resolving) : *store_));
    std::vector<std::string> frames;
    const StackId stack = store_->devices().front()->events.stack[0];
    if (stack.is_none()) return frames;
    for (const FrameId id : store_->stacks().frames_of(stack)) {
      const Frame& frame = store_->frame(id);
      frames.insert(frames.begin(), std::string(store_->text(frame.name)) + " " +
                                        std::string(store_->text(frame.file)) + ":" +
                                        std::to_string(frame.line));
    }
    return frames;
  }
  [[nodiscard]] std::string notes() const {
    for (const auto& [key, value] : store_->origin().facts)
      if (key == kNativeSymbolsFact) return value;
    return {};
  }

  std::string path_;
  std::unique_ptr<Store> store_;
};

const NativeModule kGone{"/no/such/train", "/no/such/train", "abcd"};

TEST_F(NativeRecording, a_frame_of_a_missing_module_is_an_address) {
  write({kGone}, {{"main", "train.py", 3}, {"0x1a2b", "/no/such/train", 0}});
  EXPECT_THAT(read(), ElementsAre("main train.py:3", "train+0x1a2b /no/such/train:0"));
  EXPECT_NE(notes().find("/no/such/train is not on this machine"), std::string::npos);
}

TEST_F(NativeRecording, a_reader_that_looks_nothing_up_shows_module_and_address) {
  write({kGone}, {{"0x1a2b", "/no/such/train", 0}});
  EXPECT_THAT(read(false), ElementsAre("0x1a2b /no/such/train:0"));
}

TEST_F(NativeRecording, frames_that_only_start_the_program_are_left_out) {
  const NativeModule libc{"/no/libc.so.6", "/no/libc.so.6", ""};
  write({kGone, libc}, {{"0x10", "/no/libc.so.6", 0},
                        {"0x20", "/no/libc.so.6", 0},
                        {"0x30", "/no/such/train", 0},
                        {"0x40", "/no/libc.so.6", 0}});
  EXPECT_THAT(read(), ElementsAre("train+0x30 /no/such/train:0", "libc.so.6+0x40 /no/libc.so.6:0"));
  write({libc}, {{"0x10", "/no/libc.so.6", 0}});
  EXPECT_THAT(read(), IsEmpty());
}

TEST_F(NativeRecording, frames_that_look_native_but_are_not_stay_as_they_are) {
  write({kGone}, {{"0x1a2b", "train.py", 0},
                  {"0x1a2b", "/no/such/train", 7},
                  {"0xnone", "/no/such/train", 0},
                  {"(unknown)", "", 0}});
  EXPECT_THAT(read(), ElementsAre("0x1a2b train.py:0", "0x1a2b /no/such/train:7",
                                  "0xnone /no/such/train:0", "(unknown) :0"));
}

TEST_F(NativeRecording, very_many_modules_come_back) {
  std::vector<NativeModule> modules;
  for (int number = 0; number < 500; ++number) {
    const std::string path = "/no/module" + std::to_string(number);
    modules.push_back({path, path, "ab"});
  }
  write(modules, {{"0x1", "/no/module499", 0}});
  EXPECT_THAT(read(), ElementsAre("module499+0x1 /no/module499:0"));
}

TEST(NativeAddress, is_read_as_it_was_written) {
  for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{0x1a2b}, ~std::uint64_t{0}})
    EXPECT_EQ(native_address(native_address_text(address)), address);
  for (const char* text : {"", "0x", "1a2b", "0x1a2g", "0x11111111111111111", "0x-1"})
    EXPECT_EQ(native_address(text), std::nullopt) << text;
}

TEST(LibraryModule, is_not_the_users_own) {
  for (const char* path :
       {"/usr/lib/x86_64-linux-gnu/libc.so.6", "/opt/venv/lib/python3/site-packages/x/y.so",
        "/opt/me/libtorch/lib/libtorch_cpu.so", "/opt/me/bin/python3.11", "libpython3.12.so.1.0",
        "linux-vdso.so.1"})
    EXPECT_TRUE(is_library_module(path)) << path;
  for (const char* path : {"/opt/me/train", "/build/train", "/usr/local/bin/train",
                           "/opt/me/.cache/torch_extensions/own/own.so", "/opt/app/libown.so"})
    EXPECT_FALSE(is_library_module(path)) << path;
}

}  // namespace
}  // namespace gpumemprof
