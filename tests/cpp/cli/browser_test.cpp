// BROWSER holds one command line, or several.
#include "cli/browser.h"

#include <gtest/gtest.h>

namespace gpumemprof::cli {
namespace {

using Words = std::vector<std::string>;

TEST(Browser, arguments_are_split_as_a_shell_does) {
  EXPECT_EQ(browser_commands("firefox --new-window", "U"),
            (std::vector<Words>{{"firefox", "--new-window", "U"}}));
  EXPECT_EQ(browser_commands("'/opt/my browser/run' -a \"b c\" d\\ e", "U"),
            (std::vector<Words>{{"/opt/my browser/run", "-a", "b c", "d e", "U"}}));
}

TEST(Browser, the_url_goes_where_it_is_asked_for) {
  EXPECT_EQ(browser_commands("lynx -x=%s --end", "U"),
            (std::vector<Words>{{"lynx", "-x=U", "--end"}}));
  EXPECT_EQ(browser_commands("konqueror %s &", "U"), (std::vector<Words>{{"konqueror", "U"}}));
}

TEST(Browser, several_are_tried_in_turn) {
  EXPECT_EQ(browser_commands("firefox:w3m -a", "U"),
            (std::vector<Words>{{"firefox", "U"}, {"w3m", "-a", "U"}}));
}

TEST(Browser, what_names_none_is_the_systems_own) {
  const std::vector<Words> own = {{"xdg-open", "U"}};
  EXPECT_EQ(browser_commands("", "U"), own);
  EXPECT_EQ(browser_commands(" : ", "U"), own);
  EXPECT_EQ(browser_commands("'open quote", "U"), own);
}

}  // namespace
}  // namespace gpumemprof::cli
