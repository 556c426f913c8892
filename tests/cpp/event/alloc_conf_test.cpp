#include "event/alloc_conf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr TorchVersion kTorch{2, 11};

AllocatorSettings parsed(std::string_view text, TorchVersion version = kTorch) {
  return parse_alloc_conf(text, version).value().settings;
}

std::string error_of(std::string_view text, TorchVersion version = kTorch) {
  const Result<AllocConf> conf = parse_alloc_conf(text, version);
  EXPECT_FALSE(conf.ok()) << text;
  if (conf.ok()) return "";
  EXPECT_EQ(conf.error().code, ErrorCode::usage);
  return conf.error().sentence();
}

TEST(TorchVersionTest, reads_what_torch_says_of_itself) {
  EXPECT_EQ(parse_torch_version("2.11.0+cu130").value(), (TorchVersion{2, 11}));
  EXPECT_EQ(parse_torch_version("2.4").value(), (TorchVersion{2, 4}));
  EXPECT_EQ(parse_torch_version("2.9.1").value(), (TorchVersion{2, 9}));
  EXPECT_LT((TorchVersion{2, 9}), (TorchVersion{2, 10}));
}

TEST(TorchVersionTest, refuses_what_it_does_not_know) {
  EXPECT_FALSE(parse_torch_version("2").ok());
  EXPECT_FALSE(parse_torch_version("two.one").ok());
  EXPECT_THAT(parse_torch_version("1.13.1").error().sentence(), HasSubstr("2.4 to 2.13"));
  EXPECT_THAT(parse_torch_version("2.99").error().sentence(), HasSubstr("2.4 to 2.13"));
}

TEST(AllocConfTest, an_empty_string_is_the_defaults) {
  EXPECT_EQ(parsed(""), AllocatorSettings());
  EXPECT_EQ(to_string(parse_alloc_conf("", kTorch).value()), "");
}

TEST(AllocConfTest, reads_every_setting_that_changes_placement) {
  const AllocatorSettings settings = parsed(
      "expandable_segments:True, max_split_size_mb:128 ,garbage_collection_threshold:0.8,"
      "max_non_split_rounding_mb:64,large_segment_size_mb:32,roundup_power2_divisions:8,");
  EXPECT_TRUE(settings.expandable_segments);
  EXPECT_EQ(settings.max_split_bytes, 128 * kMiB);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.8);
  EXPECT_EQ(settings.max_non_split_rounding_bytes, 64 * kMiB);
  EXPECT_EQ(settings.large_segment_bytes, 32 * kMiB);
  EXPECT_EQ(settings.round_size(9 * kMiB + 1), 10 * kMiB);
}

TEST(AllocConfTest, the_sizes_of_any_versions_string_are_read_and_nonsense_changes_nothing) {
  AllocatorSettings settings;
  apply_sizes_of_conf("later_setting:7, large_segment_size_mb: 64,max_non_split_rounding_mb:32",
                      settings);
  EXPECT_EQ(settings.large_segment_bytes, 64 * kMiB);
  EXPECT_EQ(settings.max_non_split_rounding_bytes, 32 * kMiB);
  const AllocatorSettings before = settings;
  for (const char* text : {"", "large_segment_size_mb", "large_segment_size_mb:x",
                           "large_segment_size_mb:0", "[[", "my_large_segment_size_mb:128"}) {
    apply_sizes_of_conf(text, settings);
    EXPECT_EQ(settings, before) << text;
  }
}

TEST(AllocConfTest, keeps_settings_without_effect_on_placement) {
  const AllocConf conf =
      parse_alloc_conf("pinned_num_register_threads:8,backend:native", kTorch).value();
  EXPECT_TRUE(conf.is_native_backend);
  EXPECT_EQ(to_string(conf), "pinned_num_register_threads:8");
  EXPECT_FALSE(parse_alloc_conf("backend:cudaMallocAsync", kTorch).value().is_native_backend);
}

TEST(AllocConfTest, a_memory_fraction_comes_with_torch_2_10) {
  EXPECT_EQ(parse_alloc_conf("per_process_memory_fraction:0.5", kTorch).value().memory_fraction,
            0.5);
  EXPECT_THAT(error_of("per_process_memory_fraction:0.5", {2, 9}),
              HasSubstr("it came with torch 2.10"));
}

TEST(AllocConfTest, a_misspelt_key_gets_the_right_one_and_all_valid_ones) {
  const std::string sentence = error_of("max_split_sizemb:64");
  EXPECT_THAT(sentence, HasSubstr("did you mean max_split_size_mb?"));
  EXPECT_THAT(sentence, HasSubstr("large_segment_size_mb"));
  EXPECT_THAT(error_of("expandable_segment:True"), HasSubstr("did you mean expandable_segments?"));
}

TEST(AllocConfTest, a_key_like_no_other_gets_no_suggestion) {
  EXPECT_THAT(error_of("zzz:1"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(error_of("zzz:1"), HasSubstr("roundup_power2_divisions"));
}

TEST(AllocConfTest, valid_keys_depend_on_the_version) {
  EXPECT_THAT(error_of("large_segment_size_mb:64", {2, 10}), HasSubstr("torch 2.11"));
  EXPECT_THAT(error_of("zzz:1", {2, 5}), Not(HasSubstr("max_non_split_rounding_mb")));
  EXPECT_TRUE(parsed("throw_on_cudamalloc_oom:True", {2, 12}).throw_on_device_oom);
}

TEST(AllocConfTest, max_split_size_may_be_20_since_torch_2_10) {
  EXPECT_EQ(parsed("max_split_size_mb:20", {2, 10}).max_split_bytes, 20 * kMiB);
  EXPECT_THAT(error_of("max_split_size_mb:20", {2, 9}), HasSubstr("at least 21"));
  EXPECT_THAT(error_of("max_split_size_mb:19"), HasSubstr("at least 20"));
}

TEST(AllocConfTest, bad_values_are_one_sentence_each) {
  EXPECT_THAT(error_of("expandable_segments:true"), HasSubstr("True or False"));
  EXPECT_THAT(error_of("garbage_collection_threshold:1.5"), HasSubstr("between 0 and 1"));
  EXPECT_THAT(error_of("garbage_collection_threshold:x"), HasSubstr("'x'"));
  EXPECT_THAT(error_of("max_split_size_mb:12x"), HasSubstr("whole number"));
  EXPECT_THAT(error_of("roundup_power2_divisions:3"), HasSubstr("power of two"));
  EXPECT_THAT(error_of("backend:rmm"), HasSubstr("native or cudaMallocAsync"));
  EXPECT_THAT(error_of("pinned_num_register_threads:256"), HasSubstr("up to 128"));
  EXPECT_THAT(error_of("large_segment_size_mb:10"), HasSubstr("at least 11"));
}

TEST(AllocConfTest, a_string_of_another_shape_is_refused) {
  EXPECT_THAT(error_of("expandable_segments"), HasSubstr("not key:value"));
  EXPECT_THAT(error_of("roundup_power2_divisions:[64:8"), HasSubstr("never closes"));
  EXPECT_THAT(error_of("a]:1"), HasSubstr("never opened"));
  EXPECT_THAT(error_of("roundup_power2_divisions:[[64:8]]"), HasSubstr("twice"));
  EXPECT_FALSE(parse_alloc_conf(",", kTorch).ok());
  EXPECT_FALSE(parse_alloc_conf("roundup_power2_divisions:[]x", kTorch).ok());
}

TEST(AllocConfTest, a_roundup_list_fills_below_its_first_entry_and_above_its_last) {
  const auto slots = parsed("roundup_power2_divisions:[64:8,128:4,>:1]").roundup_divisions;
  for (std::size_t slot = 0; slot <= 6; ++slot) EXPECT_EQ(slots[slot], 8U) << slot;
  EXPECT_EQ(slots[7], 4U);
  for (std::size_t slot = 8; slot < slots.size(); ++slot) EXPECT_EQ(slots[slot], 1U) << slot;
}

TEST(AllocConfTest, until_torch_2_9_the_rest_also_overwrites_the_last_entry) {
  const auto slots = parsed("roundup_power2_divisions:[64:8,128:4,>:1]", {2, 9}).roundup_divisions;
  EXPECT_EQ(slots[6], 8U);
  EXPECT_EQ(slots[7], 1U);
}

TEST(AllocConfTest, bad_roundup_lists_are_refused) {
  for (const char* list : {"[3:8]", "[64:3]", "[64]", "[64:8,]:", "[:8]", "[x:8]"}) {
    EXPECT_FALSE(parse_alloc_conf(std::string("roundup_power2_divisions:") + list, kTorch).ok())
        << list;
  }
}

class CanonicalTextTest : public testing::TestWithParam<const char*> {};

TEST_P(CanonicalTextTest, reads_back_as_the_same_settings_in_every_version) {
  const AllocConf conf = parse_alloc_conf(GetParam(), kTorch).value();
  const std::string text = to_string(conf);
  EXPECT_EQ(parse_alloc_conf(text, kTorch).value(), conf) << text;
  if (conf.settings.large_segment_bytes == 20 * kMiB && !conf.memory_fraction) {
    EXPECT_EQ(parse_alloc_conf(text, {2, 9}).value().settings, conf.settings) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, CanonicalTextTest,
    testing::Values("", "expandable_segments:True", "expandable_segments:False",
                    "max_split_size_mb:64,garbage_collection_threshold:0.7",
                    "roundup_power2_divisions:8", "roundup_power2_divisions:[64:8,128:4,>:1]",
                    "roundup_power2_divisions:[1:2,2:4,4:8]", "roundup_power2_divisions:[32768:8]",
                    "max_non_split_rounding_mb:100,large_segment_size_mb:30",
                    "per_process_memory_fraction:0.25,backend:cudaMallocAsync",
                    "garbage_collection_threshold:0.1234567"));

}  // namespace
}  // namespace gpumemprof
