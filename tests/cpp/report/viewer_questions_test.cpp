// The table of the viewer's questions: what is read, what is written, and the page's types.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "report/view/answer_shapes.h"
#include "report/view/questions.h"
#include "report/view/typescript.h"

namespace gpumemprof::view {
namespace {

std::map<std::string, std::string> parameters_of(const std::string& text) {
  std::map<std::string, std::string> parameters;
  const std::size_t mark = text.find('?');
  if (mark == std::string::npos) return parameters;
  std::string rest = text.substr(mark + 1) + "&";
  for (std::size_t end = rest.find('&'); end != std::string::npos; end = rest.find('&')) {
    const std::size_t equals = rest.find('=');
    parameters[rest.substr(0, equals)] = rest.substr(equals + 1, end - equals - 1);
    rest = rest.substr(end + 1);
  }
  return parameters;
}

std::string read_again(const Question& question) {
  const std::string text = question_text(question);
  const Result<Question> read = read_question(text.substr(0, text.find('?')), parameters_of(text));
  return read ? question_text(read.value()) : read.error().sentence();
}

TEST(ViewerQuestions, are_written_as_they_are_read) {
  AllocationsQuestion allocations;
  allocations.device = {1, 2};
  allocations.query.filter.words = "adam";
  allocations.query.filter.live_at = 7;
  allocations.query.filter.max_lifetime = 12;
  allocations.by = GroupBy::stack;
  allocations.group = 3;
  allocations.query.order = AllocationOrder::rounding;
  allocations.query.direction = SortDirection::up;
  const std::pair<Question, std::string> cases[] = {
      {MetaQuestion{}, "meta"},
      {ReportQuestion{3}, "report?file=3"},
      {TileQuestion{{0, 1}, GroupBy::source, {Axis::time, 4, 9}},
       "tile?file=0&device=1&by=source&axis=time&level=4&index=9"},
      {SpansQuestion{{0, 1}, {Axis::event, 4, 9}},
       "spans?file=0&device=1&axis=event&level=4&index=9"},
      {FlameQuestion{{0, 1}, 5, FlameBy::tag}, "flame?file=0&device=1&position=5&by=tag"},
      {CompareQuestion{{0, 1}, 5, {2, 3}, 6, GroupBy::line},
       "compare?file=0&device=1&position=5&file2=2&device2=3&position2=6&by=line"},
      {SinglesQuestion{{0, 0}, 1, 9, GroupBy::source, Axis::time, 512},
       "singles?file=0&device=0&from=1&to=9&by=source&axis=time&least_bytes=512"},
      {RangeQuestion{{0, 1}, 3, 8}, "range?file=0&device=1&from=3&to=8"},
      {RangeFlameQuestion{{0, 1}, 3, 8, RangePart::survived, FlameBy::module},
       "range_flame?file=0&device=1&from=3&to=8&part=survived&by=module"},
      {allocations,
       "allocations?file=1&device=2&max_lifetime=12&words=adam&live_at=7&by=stack&group=3&order="
       "rounding&direction=up"},
  };
  for (const auto& [question, text] : cases) {
    EXPECT_EQ(question_text(question), text);
    EXPECT_EQ(read_again(question), text);
  }
}

TEST(ViewerQuestions, text_is_written_as_browsers_write_it) {
  AllocationsQuestion question;
  question.query.filter.words = "a b&c=ä";
  EXPECT_EQ(question_text(question), "allocations?file=0&device=0&words=a%20b%26c%3D%C3%A4");
}

TEST(ViewerQuestions, without_a_required_parameter_are_refused) {
  for (const QuestionFacts& question : question_table()) {
    const Result<Question> read = read_question(question.name, {});
    EXPECT_EQ(read.ok(), question.parameters.empty()) << question.name;
  }
  EXPECT_FALSE(read_question("nothing", {}).ok());
}

TEST(ViewerQuestions, values_out_of_range_are_refused) {
  const std::map<std::string, std::string> device = {{"file", "0"}, {"device", "0"}};
  const auto with = [&](const std::string& name, const std::string& value) {
    std::map<std::string, std::string> all = device;
    all[name] = value;
    return read_question("allocations", all).ok();
  };
  EXPECT_TRUE(with("limit", "1000"));
  EXPECT_FALSE(with("limit", "1001"));
  EXPECT_TRUE(with("group", "255"));
  EXPECT_FALSE(with("group", "256"));
  EXPECT_FALSE(with("min_size", "-1"));
  EXPECT_FALSE(with("order", "colour"));
  EXPECT_FALSE(with("offset", ""));
}

TEST(ViewerQuestions, have_answers_whose_shape_is_declared_once) {
  std::set<std::string_view> names;
  for (const Shape& shape : answer_shapes())
    EXPECT_TRUE(names.insert(shape.name).second) << shape.name;
  for (const QuestionFacts& question : question_table())
    EXPECT_TRUE(names.contains(question.answer)) << question.answer;
}

// GPUMEMPROF_UPDATE_GOLDEN=1 writes the files instead.
void expect_file(const std::string& name, const std::string& wanted) {
  const std::string path = GPUMEMPROF_TEST_DATA "/../../viewer/src/data/" + name;
  if (std::getenv("GPUMEMPROF_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << wanted;
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(text == wanted) << path
                              << " is out of date: run this test with GPUMEMPROF_UPDATE_GOLDEN=1, "
                                 "then npm run build in viewer/";
}

TEST(ViewerTypes, are_what_the_table_says) {
  expect_file("answers.ts", answers_typescript());
  expect_file("questions.ts", questions_typescript());
}

}  // namespace
}  // namespace gpumemprof::view
