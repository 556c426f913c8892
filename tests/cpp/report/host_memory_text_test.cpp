// A recording whose process may have been ended by the kernel says so.
#include <gtest/gtest.h>

#include "analysis/completeness/completeness.h"
#include "report/text/overview/completeness_text.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kHostTotal = 64ULL << 30U;

std::string what_is_missing(bool is_closed, std::uint64_t available_bytes) {
  Store store;
  Origin origin;
  Ending ending;
  ending.is_closed = is_closed;
  origin.ending = ending;
  origin.facts = {{"host_resident_bytes", std::to_string(60ULL << 30U)},
                  {"host_available_bytes", std::to_string(available_bytes)},
                  {"host_total_bytes", std::to_string(kHostTotal)}};
  store.set_origin(origin);
  std::string all;
  for (const std::string& sentence : text::missing_sentences(find_completeness(store)))
    all += sentence;
  return all;
}

TEST(HostMemoryText, names_the_kernel_if_little_was_left) {
  const std::string text = what_is_missing(false, 1ULL << 30U);
  EXPECT_NE(text.find("only 1.00 GiB of 64.0 GiB main memory"), std::string::npos) << text;
  EXPECT_NE(text.find("this process held 60.0 GiB"), std::string::npos) << text;
}

TEST(HostMemoryText, names_the_kernel_if_a_process_held_most_and_less_than_an_eighth_was_left) {
  const std::string text = what_is_missing(false, 5ULL << 30U);
  EXPECT_NE(text.find("kernel may have ended it"), std::string::npos) << text;
}

TEST(HostMemoryText, is_silent_if_enough_was_left_or_the_program_ended_by_itself) {
  EXPECT_EQ(what_is_missing(false, 32ULL << 30U).find("main memory"), std::string::npos);
  EXPECT_EQ(what_is_missing(true, 1ULL << 30U), "");
}

}  // namespace
}  // namespace gpumemprof
