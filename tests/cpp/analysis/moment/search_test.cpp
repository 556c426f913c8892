// What the search of the table finds, against a scan of all allocations.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "analysis/random_history.h"
#include "analysis/table/allocation_query.h"

namespace gpumemprof {
namespace {

class SearchOfRandomHistory : public ::testing::Test {
 protected:
  // A search must find as many allocations as a scan with this condition.
  void expect_same(const std::string& words, const std::function<bool(std::size_t)>& is_wanted) {
    AllocationQuery query;
    query.limit = 1'000'000;
    query.filter.words = words;
    const EventTimes times(history_.record->events);
    const AllocationPage page = find_allocations(history_.store, *history_.record, times, query);
    std::vector<AllocationId> expected;
    for (std::size_t row = 0; row < history_.record->allocations.size(); ++row) {
      if (is_wanted(row)) expected.emplace_back(row);
    }
    std::vector<AllocationId> found = page.rows;
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected) << words;
    EXPECT_GT(found.size(), 0U) << words;
    EXPECT_LT(found.size(), history_.record->allocations.size()) << words;
  }

  bool any_frame(std::size_t row, const std::function<bool(const Frame&)>& is_it) const {
    for (StackId part = history_.record->allocations.stack[row]; !part.is_none();
         part = history_.store.stacks().caller(part)) {
      if (is_it(history_.store.frame(history_.store.stacks().frame(part)))) return true;
    }
    return false;
  }

  RandomHistory history_{31, 400};
};

TEST_F(SearchOfRandomHistory, finds_a_line_of_a_file) {
  expect_same("CASE.py:2", [&](std::size_t row) {
    return any_frame(row, [&](const Frame& frame) {
      return frame.line == 2 && history_.store.text(frame.file) == "/train/case.py";
    });
  });
}

TEST_F(SearchOfRandomHistory, finds_a_source) {
  expect_same("gradients", [&](std::size_t row) {
    return history_.record->labels.source[row] == MemorySource::gradients;
  });
  expect_same("source:optimizer", [&](std::size_t row) {
    return history_.record->labels.source[row] == MemorySource::optimizer_state;
  });
}

TEST_F(SearchOfRandomHistory, finds_a_tensor_by_its_name) {
  const StringId name = history_.store.add_string("blocks.1.down.weight");
  for (std::size_t row = 0; row < history_.record->allocations.size(); ++row)
    history_.record->labels.name.push_back(row % 3 == 0 ? name : StringId());
  expect_same("blocks.1.down", [](std::size_t row) { return row % 3 == 0; });
  expect_same("name:Blocks.1", [](std::size_t row) { return row % 3 == 0; });
}

TEST_F(SearchOfRandomHistory, finds_what_was_tagged) {
  const StringId tag = history_.store.add_string("prompts");
  Column<StringId>& tags = history_.record->events.user_metadata;
  tags.resize(history_.record->events.size(), StringId());
  for (std::size_t event = 0; event < tags.size(); event += 3) tags[event] = tag;
  const auto is_tagged = [&](std::size_t row) {
    const std::uint32_t event = history_.record->allocations.alloc_event[row];
    return event != kNoEvent && event % 3 == 0;
  };
  expect_same("Prompts", is_tagged);
  expect_same("tag:prompt", is_tagged);
  expect_same("-tag:prompt", [&](std::size_t row) { return !is_tagged(row); });
}

TEST_F(SearchOfRandomHistory, looks_only_where_it_should_and_leaves_out_what_it_should) {
  const auto has_function = [&](std::size_t row) {
    return any_frame(
        row, [&](const Frame& frame) { return history_.store.text(frame.name) == "train"; });
  };
  const auto has_file = [&](std::size_t row) {
    return any_frame(row, [&](const Frame& frame) {
      return history_.store.text(frame.file).find("train") != std::string_view::npos;
    });
  };
  expect_same("function:train", has_function);
  expect_same("file:train", has_file);
  expect_same("-train", [&](std::size_t row) { return !has_function(row) && !has_file(row); });
}

}  // namespace
}  // namespace gpumemprof
