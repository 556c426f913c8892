// What the report says about the modules that a fit checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/text/advice/advice_page.h"

namespace gpumemprof {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(std::vector<std::uint32_t> which, std::vector<std::string> modules,
                    std::string how, bool has_module_names = true) {
  Advice advice;
  advice.has_module_names = has_module_names;
  FitPlan& plan = advice.fit.emplace();
  plan.is_found = true;
  plan.set.names = {"checkpointing"};
  plan.set.code = {{"checkpointing", how, ""}};
  plan.set.checkpointed = {6, std::move(which), std::move(modules), how};
  return text::fit_text(advice, 100);
}

TEST(FitText, names_the_modules_that_are_checkpointed) {
  const std::string text = text_of({0, 2}, {"net.h.0", "net.h.2"}, "for block in model.net.h:");
  EXPECT_THAT(text, HasSubstr("Checkpointed: net.h.0, net.h.2.\n"));
  EXPECT_THAT(text, Not(HasSubstr("self.blocks")));
}

TEST(FitText, names_the_first_and_the_last_of_all_blocks) {
  const std::string text = text_of({0, 1, 2, 3, 4, 5}, {"h.0", "h.1", "h.2", "h.3", "h.4", "h.5"},
                                   "for block in model.h:");
  EXPECT_THAT(text, HasSubstr("Checkpointed: h.0 to h.5, each block.\n"));
}

TEST(FitText, says_what_a_made_up_name_stands_for) {
  EXPECT_THAT(text_of({0}, {}, "for block in self.blocks:", false),
              HasSubstr("this recording has no module names"));
  const std::string shared = text_of({0}, {"shared"}, "for block in self.blocks:");
  EXPECT_THAT(shared, HasSubstr("several of its blocks share a name"));
  EXPECT_THAT(shared, Not(HasSubstr("has no module names")));
}

}  // namespace
}  // namespace gpumemprof
