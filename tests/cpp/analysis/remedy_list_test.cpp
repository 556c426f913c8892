// The list of remedies: what every spec must say, whatever the remedy.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "analysis/advice/inference/remedies/inference_remedy.h"
#include "analysis/advice/remedies/list.h"

namespace gpumemprof {
namespace {

TEST(RemedyList, names_are_unique) {
  std::set<std::string> names;
  for (const RemedyEntry& entry : list_remedies())
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
  EXPECT_EQ(names.size(), all_remedies().size() + all_inference_remedies().size());
}

TEST(RemedyList, every_remedy_has_a_title_and_code) {
  for (const RemedySpec& remedy : all_remedies()) {
    EXPECT_FALSE(remedy.title.empty()) << remedy.name;
    EXPECT_FALSE(remedy.how.empty()) << remedy.name;
  }
  for (const InferenceRemedySpec& remedy : all_inference_remedies()) {
    EXPECT_FALSE(remedy.title.empty()) << remedy.name;
    EXPECT_FALSE(remedy.how.empty()) << remedy.name;
    EXPECT_NE(remedy.effect, nullptr) << remedy.name;
  }
}

TEST(RemedyList, every_remedy_changes_something) {
  for (const RemedySpec& remedy : all_remedies()) {
    const bool changes = remedy.rewrite != nullptr || remedy.change_settings != nullptr ||
                         remedy.batch_factor != 1 || remedy.sequence_factor != 1;
    EXPECT_TRUE(changes) << remedy.name;
  }
}

TEST(RemedyList, bands_are_never_below_one_percent) {
  for (const RemedySpec& remedy : all_remedies()) EXPECT_GE(remedy.band, 0.01) << remedy.name;
}

// --fit takes at most one remedy of each run of equal aspects.
TEST(RemedyList, remedies_that_exclude_each_other_are_neighbours_in_the_search) {
  std::map<int, Aspect> proposed;
  for (const RemedySpec& remedy : all_remedies()) {
    if (!remedy.fit_order) continue;
    EXPECT_TRUE(proposed.emplace(*remedy.fit_order, remedy.aspect).second) << remedy.name;
  }
  std::set<Aspect> done;
  std::optional<Aspect> last;
  for (const auto& [order, aspect] : proposed) {
    EXPECT_TRUE(last == aspect || done.insert(aspect).second) << aspect_name(aspect);
    last = aspect;
  }
}

TEST(RemedyList, is_searched_by_name) {
  EXPECT_EQ(find_remedy("no_such_remedy"), nullptr);
  for (const RemedySpec& remedy : all_remedies()) EXPECT_EQ(find_remedy(remedy.name), &remedy);
}

}  // namespace
}  // namespace gpumemprof
