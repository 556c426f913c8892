// How a frame is shown: what a user needs to open the file is kept at any width.
#include "report/text/place.h"

#include <gtest/gtest.h>

#include "analysis/code/shown_file.h"
#include "report/text/text_format.h"

namespace gpumemprof::test {
namespace {

constexpr std::string_view kPackages = "/opt/venv/lib/python3.11/site-packages/";

class Place : public ::testing::Test {
 protected:
  FrameId frame(std::string_view file, std::string_view name, std::uint32_t line) {
    return store_.add_frame({store_.add_string(name), store_.add_string(file), line});
  }
  // Outermost first.
  void stack(std::initializer_list<FrameId> frames) {
    StackId at;
    for (const FrameId id : frames) at = store_.add_stack(at, id);
  }
  std::string folder() {
    store_.set_program_folder(program_folder(store_));
    return store_.program_folder();
  }

  Store store_;
};

TEST_F(Place, the_programs_files_are_relative_to_its_main_script) {
  const FrameId runpy = frame("/usr/lib/python3.11/runpy.py", "_run_code", 88);
  const FrameId main = frame("/srv/lm/train.py", "<module>", 12);
  const FrameId net = frame("/srv/lm/models/net.py", "forward", 144);
  stack({runpy, main, net});
  EXPECT_EQ(folder(), "/srv/lm/");
  EXPECT_EQ(text::place(store_, main), "train.py:12 <module>");
  EXPECT_EQ(text::place(store_, net), "models/net.py:144 forward");
  EXPECT_EQ(text::place(store_, frame("/srv/shared/loss.py", "loss", 3)),
            "../shared/loss.py:3 loss");
  EXPECT_EQ(text::place(store_, frame("/data/loss.py", "loss", 3)), "/data/loss.py:3 loss");
  EXPECT_EQ(text::place(store_, frame("/srv/lmx/loss.py", "loss", 3)), "../lmx/loss.py:3 loss");
}

TEST_F(Place, packages_and_the_standard_library_go_by_their_name) {
  const std::string linear = std::string(kPackages) + "torch/nn/modules/linear.py";
  EXPECT_EQ(text::place(store_, frame(linear, "forward", 125)),
            "torch/nn/modules/linear.py:125 forward");
  EXPECT_EQ(text::place(store_, frame("/usr/lib/python3.11/threading.py", "run", 982)),
            "threading.py:982 run");
}

TEST_F(Place, the_main_script_is_no_command_that_starts_a_package) {
  const FrameId command = frame("/opt/venv/bin/trainer", "<module>", 8);
  const FrameId package = frame(std::string(kPackages) + "trainer/cli.py", "main", 3);
  stack({command, package, frame("/srv/lm/net.py", "forward", 5)});
  EXPECT_EQ(folder(), "/srv/lm/");
}

TEST_F(Place, the_script_with_most_stacks_below_it_is_the_main_one) {
  const FrameId probe = frame("/srv/tools/probe.py", "<module>", 1);
  const FrameId main = frame("/srv/lm/train.py", "<module>", 12);
  stack({probe});
  stack({frame("/srv/pool/worker.py", "run", 1), frame("/srv/pool/worker.py", "a", 1),
         frame("/srv/pool/worker.py", "b", 1), frame("/srv/pool/worker.py", "c", 1)});
  stack({main, frame("/srv/lm/net.py", "forward", 5)});
  EXPECT_EQ(folder(), "/srv/lm/");
}

TEST_F(Place, without_stacks_a_file_keeps_its_path) {
  EXPECT_EQ(folder(), "");
  EXPECT_EQ(text::place(store_, frame("/srv/lm/train.py", "step", 12)), "/srv/lm/train.py:12 step");
}

TEST_F(Place, functions_are_shortened_before_files_and_lines) {
  const std::string file = std::string(kPackages) + "torch/nn/parallel/distributed.py";
  const FrameId id = frame(file, "DistributedDataParallel._ddp_init_helper", 1243);
  EXPECT_EQ(text::place(store_, id, 80),
            "torch/nn/parallel/distributed.py:1243 DistributedDataParallel._ddp_init_helper");
  EXPECT_EQ(text::place(store_, id, 60), "torch/nn/parallel/distributed.py:1243 …_ddp_init_helper");
  EXPECT_EQ(text::place(store_, id, 50), "torch/nn/parallel/distributed.py:1243 …init_helper");
  EXPECT_EQ(text::place(store_, id, 44), "torch/…/distributed.py:1243 …_helper");
  EXPECT_EQ(text::place(store_, id, 30), "…/distributed.py:1243 …_helper");
  EXPECT_EQ(text::place(store_, id, 27), "torch/…/distributed.py:1243");
  EXPECT_EQ(text::place(store_, id, 25), "…/distributed.py:1243");
}

TEST_F(Place, the_name_of_the_file_and_the_line_survive_any_width) {
  const FrameId ids[] = {
      frame("/data/word_language_model/model.py", "RNNModel.forward", 144),
      frame(std::string(kPackages) + "a/b/c/d/e/f/g/h/net.py", std::string(300, 'f'), 7),
      frame("net.py", "forward", 99),
  };
  for (const FrameId id : ids) {
    const Frame& row = store_.frame(id);
    const std::string file(store_.text(row.file));
    const std::string kept = file.substr(file.rfind('/') + 1) + ":" + std::to_string(row.line);
    for (std::size_t width = 16; width < 120; ++width) {
      const std::string shown = text::place(store_, id, width);
      EXPECT_NE(shown.find(kept), std::string::npos) << width << ": " << shown;
      EXPECT_LE(text::columns(shown), width) << shown;
    }
  }
}

TEST_F(Place, a_name_longer_than_the_line_keeps_its_end_and_the_line) {
  const FrameId id = frame("/srv/" + std::string(90, 'n') + "_end.py", "forward", 5);
  const std::string shown = text::place(store_, id, 40);
  EXPECT_EQ(text::columns(shown), 40U);
  EXPECT_TRUE(shown.ends_with("_end.py:5")) << shown;
}

}  // namespace
}  // namespace gpumemprof::test
