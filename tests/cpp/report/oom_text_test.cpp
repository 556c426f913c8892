// What the report advises after a run ran out of memory.
#include "report/text/overview/oom_text.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace gpumemprof {
namespace {

OomReport of_limit(bool is_need_known) {
  OomReport oom;
  oom.cause = OomCause::limit;
  oom.limit = ByteRange{4 * kGiB, 4 * kGiB};
  oom.wanted_bytes = kMiB;
  oom.is_need_known = is_need_known;
  return oom;
}

TEST(OomText, a_run_whose_need_is_known_is_made_to_fit) {
  const Store store;
  const text::OomRemedy remedy = text::oom_remedy(of_limit(true), store, "run.gmp");
  EXPECT_TRUE(remedy.sentence.ends_with(", or make the run fit:")) << remedy.sentence;
  EXPECT_EQ(remedy.command, "gpumemprof advise run.gmp --fit 4096MiB");
}

TEST(OomText, no_command_is_named_that_would_refuse) {
  const Store store;
  const text::OomRemedy remedy = text::oom_remedy(of_limit(false), store, "run.gmp");
  EXPECT_TRUE(
      remedy.sentence.ends_with("record a run with a smaller batch to its end and see what fits:"));
  EXPECT_EQ(remedy.command, "gpumemprof advise SMALLER.gmp --fit 4096MiB");
}

}  // namespace
}  // namespace gpumemprof
