#include "base/spill/spill_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace gpumemprof {
namespace {

// Of this process: where temporary files lie.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const char* path) {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", path, 1);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

std::vector<std::byte> bytes_of(std::size_t count, int value) {
  return {count, static_cast<std::byte>(value)};
}

TEST(SpillFile, GivesBackWhatWasAppended) {
  SpillFile file;
  const std::vector<std::byte> first = bytes_of(100'000, 3);
  const std::vector<std::byte> second = bytes_of(5, 7);
  const auto first_offset = file.append(first);
  const auto second_offset = file.append(second);
  ASSERT_TRUE(first_offset && second_offset);
  std::vector<std::byte> read = bytes_of(5, 0);
  EXPECT_TRUE(file.read(*second_offset, read));
  EXPECT_EQ(read, second);
  read = bytes_of(100'000, 0);
  EXPECT_TRUE(file.read(*first_offset, read));
  EXPECT_EQ(read, first);
}

TEST(SpillFile, ReadsNothingBehindItsEnd) {
  SpillFile file;
  ASSERT_TRUE(file.append(bytes_of(10, 1)));
  std::vector<std::byte> read = bytes_of(11, 0);
  EXPECT_FALSE(file.read(0, read));
}

TEST(SpillFile, TakesNothingWhereNoFileCanBe) {
  const TemporaryFolder nowhere("/nonexistent");
  SpillFile file;
  EXPECT_FALSE(file.append(bytes_of(10, 1)));
  EXPECT_FALSE(file.append(bytes_of(10, 1)));
}

}  // namespace
}  // namespace gpumemprof
