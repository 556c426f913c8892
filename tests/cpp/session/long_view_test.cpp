// What the page is told about a run that is too long for memory equals what it is told about the
// same run read whole: every question, at the edges of its stretches and at random moments.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "long_run/long_run.h"
#include "session/forced_window.h"
#include "session/view.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::json;
using namespace view;

constexpr DeviceName kFirst{0, 0};

constexpr const char* kTrainingRun = "training";

std::string training_run() {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / (std::to_string(getpid()) + ".long_view.gmp"))
          .string();
  long_run::LongRunOptions options;
  options.path = path;
  options.events = 60'000;
  options.flush_every = 1'000;
  EXPECT_TRUE(long_run::make_long_run(options));
  return path;
}

class LongView : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const bool is_training = GetParam() == kTrainingRun;
    const std::string path = is_training ? training_run() : GetParam();
    whole_ = std::make_unique<View>(std::vector<ViewedRun>{Recording::open(path).value()});
    const ForcedWindow forced(is_training ? 5'000 : 300);
    Result<ViewedRun> run = open_viewed_run(path);
    ASSERT_TRUE(run) << run.error().sentence();
    if (run.value().indexed == nullptr || run.value().indexed->devices().empty())
      GTEST_SKIP() << "it is read whole";
    indexed_ = std::make_unique<View>(std::vector<ViewedRun>{std::move(run).value()});
    random_.seed(17);
  }

  [[nodiscard]] const DeviceView& whole() const { return *whole_->whole(device_); }
  [[nodiscard]] const LongDevice& indexed() const { return *indexed_->indexed(device_); }
  [[nodiscard]] Position last() const { return whole().timeline().last_position(); }
  // As many times as the run has devices.
  template <typename Body>
  void for_each_device(const Body& body) {
    ASSERT_EQ(whole_->device_count(0), indexed_->device_count(0));
    for (std::size_t device = 0; device < whole_->device_count(0); ++device) {
      device_ = {0, device};
      body();
      if (HasFatalFailure()) return;
    }
  }

  [[nodiscard]] std::vector<Position> positions() {
    std::vector<Position> found = {0, last(), last() / 2};
    std::uniform_int_distribution<Position> any(0, last());
    for (int count = 0; count < 5; ++count) {
      const Position position = any(random_);
      found.push_back(position);
      const Result<StretchPtr> stretch = indexed().at(position);
      EXPECT_TRUE(stretch);
      if (!stretch) continue;
      for (const Position edge : {stretch.value()->first_event(), stretch.value()->end_event()}) {
        found.push_back(edge);
        found.push_back(std::min(edge + 1, last()));
      }
    }
    std::ranges::sort(found);
    const auto [first, end] = std::ranges::unique(found);
    found.erase(first, end);
    return found;
  }

  static Json ask(const View& view, const Question& question) {
    const Result<std::string> answer = view.answer(question);
    EXPECT_TRUE(answer) << question_text(question) << ": " << answer.error().sentence();
    return answer ? Json::parse(answer.value()) : Json();
  }
  void expect_same(const Question& question) const {
    EXPECT_EQ(ask(*indexed_, question), ask(*whole_, question)) << question_text(question);
  }

  // The number that the page has for a row of the whole run in a long one.
  [[nodiscard]] std::uint64_t long_row(std::size_t row) const {
    const AllocationColumns& rows = whole().record().allocations;
    const Position birth = birth_position(rows.alloc_event[row]);
    return birth > 0 ? birth : kOlderRow + rows.address[row];
  }
  // Names are left out: an unlabelled input has the name of one that was made at the same place,
  // which may be outside the stretch.
  [[nodiscard]] Json shown_rows(const Json& page, bool is_whole, const Json& goes_on) const {
    Json shown = Json::array();
    for (std::size_t index = 0; index < page["row"].size(); ++index) {
      Json row = {{"row", is_whole ? Json(long_row(page["row"][index])) : page["row"][index]},
                  {"label", page["labels"][page["label"][index].get<std::size_t>()]}};
      for (const char* column : {"size", "requested", "birth", "birth_ns", "source", "tag"})
        row[column] = page[column][index];
      if (!goes_on[index].get<bool>()) {
        row["death"] = page["death"][index];
        row["lifetime"] = page["lifetime"][index];
      }
      shown.push_back(std::move(row));
    }
    return shown;
  }
  void expect_same_rows(const Question& question) const {
    const Json mine = ask(*indexed_, question);
    const Json truth = ask(*whole_, question);
    ASSERT_EQ(mine["matches"], truth["matches"]) << question_text(question);
    EXPECT_EQ(mine["matching_bytes"], truth["matching_bytes"]);
    const Json none = Json::array();
    const Json& goes_on = mine.contains("goes_on") ? mine["goes_on"] : none;
    EXPECT_EQ(shown_rows(mine, false, goes_on), shown_rows(truth, true, goes_on))
        << question_text(question);
  }

  // As a picture of a short range shows them; there are other groups.
  void expect_same_singles(Position from, Position to) const {
    const SinglesQuestion question{device_, from, to, GroupBy::size, Axis::event, 512, 2};
    const Json mine = ask(*indexed_, question);
    Json truth = ask(*whole_, question);
    EXPECT_EQ(mine["spacing"], 0);
    EXPECT_EQ(mine["matches"], truth["matches"]) << question_text(question);
    for (Json& row : truth["row"]) row = long_row(row.get<std::size_t>());
    const auto shown = [&](const Json& answer) {
      std::vector<std::array<Json, 5>> rows;
      for (std::size_t index = 0; index < answer["row"].size(); ++index) {
        const Json& death = answer["death"][index];
        const bool is_later = death.is_null() || death.get<Position>() >= to;
        rows.push_back({answer["birth"][index], answer["row"][index], answer["size"][index],
                        answer["requested"][index], is_later ? Json() : death});
      }
      std::ranges::sort(rows);
      return rows;
    };
    EXPECT_EQ(shown(mine), shown(truth)) << question_text(question);
  }

  DeviceName device_ = kFirst;
  std::unique_ptr<View> whole_;
  std::unique_ptr<View> indexed_;
  std::mt19937 random_;
};

TEST_P(LongView, DescribesTheRun) {
  Json mine = ask(*indexed_, MetaQuestion{})["files"][0];
  Json truth = ask(*whole_, MetaQuestion{})["files"][0];
  for (std::size_t device = 0; device < truth["devices"].size(); ++device) {
    EXPECT_EQ(mine["devices"][device]["is_long"], true);
    for (const char* field :
         {"is_long", "index_events", "listed_events", "group_bys", "flame_bys", "allocations"}) {
      mine["devices"][device].erase(field);
      truth["devices"][device].erase(field);
    }
  }
  EXPECT_EQ(mine, truth);
}

TEST_P(LongView, KnowsEveryMoment) {
  for_each_device([&] {
    for (const Position position : positions()) {
      expect_same(MomentQuestion{device_, position});
      for (const FlameBy by : indexed_->flame_bys(device_))
        expect_same(FlameQuestion{device_, position, by});
      if (HasFailure()) return;
    }
  });
}

TEST_P(LongView, DividesMomentsIntoGroups) {
  for_each_device([&] {
    for (const GroupBy by : kGroupBys) {
      if (!whole().has(by)) continue;
      const Grouping grouping =
          make_grouping_as(whole().store(), whole().record(), by, indexed().groups(by));
      const GroupSums sums(grouping, whole().timeline().allocated(), whole().record().allocations);
      std::vector<std::uint64_t> truth(sums.group_count());
      for (const Position position : positions()) {
        sums.bytes_at(position, truth.data());
        EXPECT_EQ(ask(*indexed_, GroupBytesQuestion{device_, position, by})["groups"], Json(truth))
            << group_by_name(by) << " at " << position;
      }
    }
  });
}

TEST_P(LongView, DrawsThePool) {
  for_each_device([&] {
    for (const Position position : positions()) {
      const SegmentsQuestion question{device_, position, GroupBy::size};
      Json mine = ask(*indexed_, question);
      Json truth = ask(*whole_, question);
      for (Json& row : truth["row"]) {
        if (row != -1) row = long_row(row.get<std::size_t>());
      }
      for (Json& segment : truth["segments"]) {
        if (!segment["pin"].is_null()) segment["pin"] = long_row(segment["pin"].get<std::size_t>());
      }
      for (Json* answer : {&mine, &truth}) {
        for (Json& label : (*answer)["label"]) {
          if (label != -1) label = (*answer)["labels"][label.get<std::size_t>()];
        }
        answer->erase("labels");
        answer->erase("group");  // there are other groups
      }
      ASSERT_EQ(mine, truth) << "at " << position;
    }
  });
}

TEST_P(LongView, ListsAllocations) {
  for_each_device([&] {
    for (const Position position : positions()) {
      for (const AllocationOrder order : {AllocationOrder::birth, AllocationOrder::size}) {
        AllocationsQuestion question{device_, {}, {}, {}};
        question.query.filter.live_at = position;
        question.query.order = order;
        question.query.limit = kMostTableRows;
        expect_same_rows(question);
        AllocationsQuestion range{device_, {}, {}, {}};
        range.query.filter.from = position;
        range.query.filter.to = std::min(position + 200, last() + 1);
        range.query.order = order;
        range.query.limit = kMostTableRows;
        if (*range.query.filter.from < *range.query.filter.to) expect_same_rows(range);
      }
      if (position < last()) expect_same_singles(position, std::min(position + 150, last() + 1));
      if (HasFailure()) return;
    }
  });
}

TEST_P(LongView, FollowsAllocationsToTheirEnd) {
  for_each_device([&] {
    const std::size_t rows = whole().record().allocations.size();
    if (rows == 0) return;
    std::uniform_int_distribution<std::size_t> any(0, rows - 1);
    for (std::size_t count = 0; count < 60; ++count) {
      const std::size_t row = count < 10 ? std::min(count, rows - 1) : any(random_);
      Json mine = ask(*indexed_, AllocationQuestion{device_, long_row(row)});
      Json truth = ask(*whole_, AllocationQuestion{device_, row});
      truth["row"] = long_row(row);
      for (Json* answer : {&mine, &truth}) answer->erase("name");
      ASSERT_EQ(mine, truth) << "row " << row;
    }
  });
}

TEST_P(LongView, ComparesMoments) {
  for_each_device([&] {
    const std::vector<Position> all = positions();
    for (const GroupBy by : {GroupBy::source, GroupBy::line, GroupBy::stack}) {
      if (!whole().has(by)) continue;
      for (std::size_t index = 0; index < all.size(); index += 3)
        expect_same(CompareQuestion{device_, all[index], device_, all[all.size() - 1 - index], by});
    }
  });
}

// A tile from the index is about moments between other edges than that of the whole run.
TEST_P(LongView, DrawsTheTimelineAtAnyZoom) {
  for_each_device([&] {
    std::size_t exact = 0;
    for (std::uint32_t level = 0; level <= std::min(indexed().scale().deepest_level(), 9U);
         ++level) {
      for (const Axis axis : {Axis::event, Axis::time}) {
        if (axis == Axis::time && !whole().timeline().times().is_known()) continue;
        std::uniform_int_distribution<std::uint32_t> any(0, (1U << level) - 1);
        const TileAddress address{axis, level, any(random_)};
        const GroupBy by = level % 2 == 0 ? GroupBy::source : GroupBy::line;
        if (!whole().has(by)) continue;
        const bool is_exact = indexed().is_exact(address);
        exact += is_exact ? 1 : 0;
        Grouping grouping =
            make_grouping_as(whole().store(), whole().record(), by, indexed().groups(by));
        if (!is_exact && by != GroupBy::source) {
          for (std::uint8_t& group : grouping.group_of_allocation)
            group = static_cast<std::uint8_t>(grouping.groups.size() - 1);
        }
        const GroupSums sums(grouping, whole().timeline().allocated(),
                             whole().record().allocations);
        const Tile truth =
            is_exact ? whole().timeline().tile(address, sums).value()
                     : whole().timeline().tile_of(indexed().timeline().buckets_of(address), sums);
        ASSERT_EQ(ask(*indexed_, TileQuestion{device_, by, address}), Json::parse(tile_json(truth)))
            << "level " << level << " index " << address.index << (is_exact ? " exact" : "")
            << (axis == Axis::time ? " time" : " event");
      }
    }
    if (last() > 1000) {
      EXPECT_GT(exact, 0U);
    }
  });
}

TEST_P(LongView, DrawsStepsAndPhases) {
  for_each_device([&] {
    const SpanGround ground{whole().timeline().scale(), [&](std::uint32_t event) {
                              return whole().timeline().times().of_event(event);
                            }};
    const Spans truth(whole().store(), whole().phases(), ground);
    const Result<const Spans*> mine = indexed().spans();
    ASSERT_TRUE(mine);
    EXPECT_EQ(mine.value()->span_count(), truth.span_count());
    for (std::uint32_t level = 0; level < 4; ++level) {
      const TileAddress address{Axis::event, level, (1U << level) - 1};
      if (!ground.scale.check(address)) continue;
      const std::vector<DrawnSpan> found = mine.value()->tile(address).value().spans;
      const std::vector<DrawnSpan> wanted = truth.tile(address).value().spans;
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t row = 0; row < found.size(); ++row) {
        EXPECT_EQ(found[row].name, wanted[row].name);
        EXPECT_EQ(found[row].from, wanted[row].from);
        EXPECT_EQ(found[row].to, wanted[row].to);
        EXPECT_EQ(found[row].count, wanted[row].count);
      }
    }
  });
}

TEST_P(LongView, ShowsFailures) {
  for_each_device([&] {
    const Json mine = ask(*indexed_, OverlaysQuestion{device_});
    const Json truth = ask(*whole_, OverlaysQuestion{device_});
    for (std::size_t oom = 0; oom < mine["ooms"].size(); ++oom)
      EXPECT_EQ(mine["ooms"][oom], truth["ooms"][oom]);
    EXPECT_EQ(mine["ooms"].size() + mine["ooms_left_out"].get<std::size_t>(),
              truth["ooms"].size() + truth["ooms_left_out"].get<std::size_t>());
    EXPECT_EQ(mine["card_bytes"], truth["card_bytes"]);
  });
}

TEST_P(LongView, RefusesWhatIsNotThere) {
  EXPECT_FALSE(indexed_->answer(MomentQuestion{kFirst, 4'000'000'000U}));
  EXPECT_FALSE(indexed_->answer(MomentQuestion{{0, 99}, 0}));
  EXPECT_FALSE(indexed_->answer(AllocationQuestion{kFirst, 4'000'000'000U}));
  EXPECT_FALSE(indexed_->answer(AllocationQuestion{kFirst, kOlderRow + 1}));
  EXPECT_FALSE(indexed_->answer(TileQuestion{kFirst, GroupBy::line, {Axis::event, 22, 4'194'304}}));
}

TEST_P(LongView, ListsNoMoreThanItReads) {
  if (GetParam() != kTrainingRun) GTEST_SKIP() << "it has few stretches";
  const Result<std::string> all = indexed_->answer(AllocationsQuestion{kFirst, {}, {}, {}});
  ASSERT_FALSE(all);
  EXPECT_NE(all.error().sentence().find("too many of a long run to be listed"), std::string::npos);
}

// Of a long range, what outlives two checkpoints is known from the index, up to the last of them.
TEST_P(LongView, OutlinesTheAllocationsOfALongRange) {
  if (GetParam() != kTrainingRun) GTEST_SKIP() << "it has few stretches";
  const SinglesQuestion question{kFirst, 0, last() + 1, GroupBy::source, Axis::event};
  const Json mine = ask(*indexed_, question);
  const Json truth = ask(*whole_, question);
  const auto spacing = mine["spacing"].get<Position>();
  ASSERT_GT(spacing, 0U);
  EXPECT_TRUE(mine["matches"].is_null());
  std::map<std::uint64_t, std::size_t> place;
  for (std::size_t index = 0; index < truth["row"].size(); ++index)
    place[long_row(truth["row"][index].get<std::size_t>())] = index;
  const auto listed = mine["row"].get<std::set<std::uint64_t>>();
  for (std::size_t index = 0; index < mine["row"].size(); ++index) {
    const auto row = mine["row"][index].get<std::uint64_t>();
    ASSERT_TRUE(place.contains(row));
    const std::size_t same = place[row];
    for (const char* column : {"size", "requested", "birth"})
      EXPECT_EQ(mine[column][index], truth[column][same]) << column;
    const Json& death = truth["death"][same];
    const Json& seen = mine["death"][index];
    ASSERT_EQ(seen.is_null(), death.is_null());
    if (death.is_null()) continue;
    EXPECT_TRUE(seen <= death && seen.get<Position>() + spacing >= death.get<Position>());
  }
  EXPECT_GT(listed.size(), 10U);
  for (const auto& [row, index] : place) {
    const Json& death = truth["death"][index];
    const Position end = death.is_null() ? last() : death.get<Position>();
    const bool is_long = end - truth["birth"][index].get<Position>() > 2 * spacing;
    EXPECT_TRUE(!is_long || listed.contains(row)) << row;
  }
}

TEST_P(LongView, SaysWhatHappenedInARange) {
  for_each_device([&] {
    for (const Position position : positions()) {
      const Position to = std::min(position + 150, last());
      if (position > to) continue;
      expect_same(RangeQuestion{device_, position, to});
      for (const RangePart part : kRangeParts)
        expect_same(RangeFlameQuestion{device_, position, to, part, FlameBy::stack});
    }
  });
  EXPECT_FALSE(indexed_->answer(RangeQuestion{kFirst, 9, 3}));
  EXPECT_FALSE(indexed_->answer(RangeQuestion{kFirst, 0, last() + 1}));
}

std::vector<std::string> long_view_recordings() {
  std::vector<std::string> found = {kTrainingRun};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GPUMEMPROF_TEST_DATA)) {
    if (entry.path().extension() == ".gmp" && entry.is_regular_file())
      found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  return found;
}

std::string long_view_name(const testing::TestParamInfo<std::string>& parameter) {
  std::string name = std::filesystem::path(parameter.param).stem().string();
  std::ranges::replace_if(
      name, [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Data, LongView, testing::ValuesIn(long_view_recordings()), long_view_name);

}  // namespace
}  // namespace gpumemprof
