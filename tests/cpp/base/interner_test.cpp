#include "base/interner.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace gpumemprof {
namespace {

TEST(Interner, stores_each_text_once) {
  Interner texts;
  const StringId first = texts.intern("forward");
  EXPECT_EQ(texts.intern("forward"), first);
  EXPECT_NE(texts.intern("backward"), first);
  EXPECT_EQ(texts.text(first), "forward");
  EXPECT_EQ(texts.size(), 3U);
}

TEST(Interner, has_the_empty_text_from_the_start) {
  Interner texts;
  EXPECT_EQ(texts.intern(""), StringId(0));
  EXPECT_EQ(texts.text(StringId(0)), "");
  EXPECT_EQ(texts.size(), 1U);
}

TEST(Interner, tells_texts_apart_that_differ_in_length_or_zero_bytes) {
  Interner texts;
  const StringId a = texts.intern(std::string_view("a\0", 2));
  const StringId b = texts.intern(std::string_view("a\0\0", 3));
  const StringId c = texts.intern("a");
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(texts.text(b).size(), 3U);
}

TEST(Interner, keeps_ids_while_it_grows) {
  Interner texts;
  std::vector<StringId> ids;
  for (int index = 0; index < 50000; ++index)
    ids.push_back(texts.intern("text " + std::to_string(index)));
  for (int index = 0; index < 50000; ++index) {
    ASSERT_EQ(texts.text(ids[static_cast<std::size_t>(index)]), "text " + std::to_string(index));
    ASSERT_EQ(texts.intern("text " + std::to_string(index)), ids[static_cast<std::size_t>(index)]);
  }
  EXPECT_EQ(texts.size(), 50001U);
  EXPECT_EQ(texts.offsets().size(), 50002U);
  EXPECT_EQ(static_cast<std::size_t>(texts.offsets().back()), texts.bytes().size());
}

TEST(Interner, checks_ids_it_never_gave_out) {
  Interner texts;
  EXPECT_THROW((void)texts.text(StringId(99)), InternalError);
  EXPECT_THROW((void)texts.text(StringId()), InternalError);
}

}  // namespace
}  // namespace gpumemprof
