#include "session/ranks/summary_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

namespace gpumemprof {
namespace {

constexpr char kHead[] =
    R"({"format":"gpumemprof rank summary","version":1,"command":"\"device\":\"x\"","devices":[)";
constexpr char kDevice[] = R"({"device":"cuda:0"})";

std::string held_line(int device) {
  return R"({"device":)" + std::to_string(device) + R"(,"sites":[],"modules":[]})" + "\n";
}

std::string column_line(int device, const std::string& name, const std::string& differences) {
  return R"({"device":)" + std::to_string(device) + R"(,"column":")" + name +
         R"(","differences":[)" + differences + "]}\n";
}

std::string of_device(int device, const std::string& steps, const std::string& peaks) {
  return held_line(device) + column_line(device, "step", steps) +
         column_line(device, "peak_bytes", peaks);
}

std::string with_head(const std::string& rest) {
  return std::string(kHead) + kDevice + "]}\n" + rest;
}

TEST(SummaryFile, columns_are_added_up_from_their_differences) {
  const auto found = parse_summary(with_head(of_device(0, "1,1,1", "100,-30,5") + "what follows"));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->devices.size(), 1U);
  EXPECT_EQ(found->devices[0].steps, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(found->devices[0].peaks, (std::vector<std::int64_t>{100, 70, 75}));
  EXPECT_EQ(found->devices[0].held + "\n", held_line(0));
  EXPECT_TRUE(found->head.starts_with(kHead));
}

TEST(SummaryFile, every_device_is_found) {
  const std::string text = std::string(kHead) + kDevice + "," + kDevice + "]}\n" +
                           of_device(0, "1", "7") + column_line(0, "floor_bytes", "3") +
                           of_device(1, "1,1", "8,1");
  const auto found = parse_summary(text);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->devices.size(), 2U);
  EXPECT_EQ(found->devices[1].peaks, (std::vector<std::int64_t>{8, 9}));
}

TEST(SummaryFile, a_rank_without_steps_is_read) {
  const auto found = parse_summary(with_head(of_device(0, "", "")));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->devices[0].peaks.empty());
}

TEST(SummaryFile, anything_else_is_left_to_a_reader_of_json) {
  const std::string whole = with_head(of_device(0, "1,1,1", "100,-30,5"));
  for (std::size_t end = 0; end < whole.size(); ++end)
    EXPECT_FALSE(parse_summary(std::string_view(whole).substr(0, end))) << end;
  for (const char* peaks : {"1,2", "1,2,", "1,,2", "1,2,x", "1, 2,3", "1,2,3.5",
                            "9223372036854775807,1,1", "99999999999999999999,1,1"})
    EXPECT_FALSE(parse_summary(with_head(of_device(0, "1,1,1", peaks)))) << peaks;
  EXPECT_FALSE(parse_summary(with_head(of_device(1, "1", "1"))));
  EXPECT_FALSE(parse_summary("{}\n"));
  EXPECT_FALSE(read_summary_file("/nowhere/at/all"));
}

// The text, and then the same letter without end.
class EndlessSource final : public ByteSource {
 public:
  explicit EndlessSource(std::string start) : start_(std::move(start)) {}
  Result<std::size_t> read(std::span<std::byte> out) override {
    std::ranges::fill(out, std::byte{'1'});
    const std::size_t left = start_.size() - std::min(start_.size(), delivered_);
    std::ranges::copy(std::as_bytes(std::span(start_)).last(left).first(std::min(left, out.size())),
                      out.begin());
    delivered_ += out.size();
    return out.size();
  }
  [[nodiscard]] std::size_t delivered() const { return delivered_; }

 private:
  std::string start_;
  std::size_t delivered_ = 0;
};

TEST(SummaryFile, that_does_not_begin_as_a_summary_is_not_searched_for_a_line_end) {
  for (const char* start : {"", "{", R"({"format":"gpumemprof rank summari)"}) {
    EndlessSource source(start);
    EXPECT_FALSE(read_summary(source));
    EXPECT_LE(source.delivered(), std::size_t{64} << 10) << start;
  }
}

TEST(SummaryFile, with_a_line_without_end_is_given_up) {
  const std::string head = with_head("");
  for (const std::string& start :
       {head.substr(0, head.size() - 1), head, with_head(held_line(0))}) {
    EndlessSource source(start);
    EXPECT_FALSE(read_summary(source));
    EXPECT_LE(source.delivered(), std::size_t{65} << 20);
  }
}

}  // namespace
}  // namespace gpumemprof
