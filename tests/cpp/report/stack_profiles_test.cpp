// Profiles for pprof and speedscope: every byte is there once, whatever frames are called.
#include <gtest/gtest.h>
#include <zlib.h>

#include <map>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>

#include "report/profile/pprof.h"
#include "report/profile/speedscope.h"

namespace gpumemprof {
namespace {

class StackProfiles : public ::testing::Test {
 protected:
  StackId stack(StackId caller, std::string_view function, std::uint32_t line) {
    return store_.add_stack(caller, store_.add_frame({store_.add_string(function),
                                                      store_.add_string("/p/train.py"), line}));
  }

  void sample(StackId stack, MemorySource source, std::uint64_t alloc, std::uint64_t inuse,
              bool is_backward = false) {
    StackSample one;
    one.stack = stack;
    one.source = source;
    one.is_backward = is_backward;
    one.alloc_objects = alloc / 512;
    one.alloc_bytes = alloc;
    one.inuse_objects = inuse / 512;
    one.inuse_bytes = inuse;
    profile_.samples.push_back(one);
    if (profile_.moments.empty()) profile_.moments.emplace_back();
  }

  Store store_;
  StackProfile profile_;
  std::vector<AboutLine> about_ = {{"recording", "run.gmp"}, {"missing", "12 events were lost"}};
};

std::string unzipped(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string out(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

struct ReadProfile {
  std::vector<std::string> texts;
  std::vector<std::vector<std::int64_t>> values;
  std::vector<std::vector<std::uint64_t>> stacks;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> labels;
  std::vector<std::int64_t> comments;
};

ReadProfile read_profile(const std::string& bytes) {
  ReadProfile read;
  protozero::pbf_reader profile(bytes);
  while (profile.next()) {
    if (profile.tag() == 6) {
      read.texts.push_back(profile.get_string());
    } else if (profile.tag() == 13) {
      for (const std::int64_t comment : profile.get_packed_int64())
        read.comments.push_back(comment);
    } else if (profile.tag() == 2) {
      protozero::pbf_reader sample = profile.get_message();
      read.labels.emplace_back();
      while (sample.next()) {
        if (sample.tag() == 1) {
          const auto ids = sample.get_packed_uint64();
          read.stacks.emplace_back(ids.begin(), ids.end());
        } else if (sample.tag() == 2) {
          const auto values = sample.get_packed_int64();
          read.values.emplace_back(values.begin(), values.end());
        } else {
          protozero::pbf_reader label = sample.get_message();
          std::pair<std::int64_t, std::int64_t> found;
          while (label.next()) (label.tag() == 1 ? found.first : found.second) = label.get_int64();
          read.labels.back().push_back(found);
        }
      }
    } else {
      profile.skip();
    }
  }
  return read;
}

TEST_F(StackProfiles, pprof_holds_every_byte_with_its_labels) {
  const StackId main = stack({}, "main", 3);
  sample(stack(main, "step", 7), MemorySource::activations, 4096, 1024);
  sample(main, MemorySource::parameters, 512, 512);
  const ReadProfile read = read_profile(unzipped(pprof_profile(profile_, store_, about_)));
  ASSERT_EQ(read.values.size(), 2U);
  EXPECT_EQ(read.values[0], (std::vector<std::int64_t>{8, 4096, 2, 1024}));
  EXPECT_EQ(read.values[1], (std::vector<std::int64_t>{1, 512, 1, 512}));
  EXPECT_EQ(read.stacks[0].size(), 2U);
  EXPECT_EQ(read.stacks[0].back(), read.stacks[1].back());  // the outermost frame is the last
  std::map<std::string, std::string> labels;
  for (const auto& [key, value] : read.labels[0])
    labels[read.texts[static_cast<std::size_t>(key)]] = read.texts[static_cast<std::size_t>(value)];
  EXPECT_EQ(labels["source"], "activations");
  EXPECT_EQ(labels["device"], "cuda:0");
  EXPECT_EQ(labels["source_provenance"], "inferred");
  EXPECT_EQ(read.texts.front(), "");
}

TEST_F(StackProfiles, pprof_says_what_is_missing) {
  sample({}, MemorySource::unknown, 512, 512);
  const ReadProfile read = read_profile(unzipped(pprof_profile(profile_, store_, about_)));
  std::string comments;
  for (const std::int64_t comment : read.comments)
    comments += read.texts[static_cast<std::size_t>(comment)] + "\n";
  EXPECT_NE(comments.find("missing: 12 events were lost"), std::string::npos) << comments;
}

TEST_F(StackProfiles, frames_with_odd_names_break_neither_format) {
  sample(stack({}, "a\"b\\\n\xff;\x1b[31m", 1), MemorySource::unknown, 1024, 1024);
  const ReadProfile read = read_profile(unzipped(pprof_profile(profile_, store_, about_)));
  for (const std::string& text : read.texts)
    EXPECT_EQ(text.find_first_of("\n\x1b\xff"), std::string::npos) << text;
  const auto file = nlohmann::json::parse(speedscope_profile({profile_}, store_, about_));
  EXPECT_EQ(file["profiles"][0]["weights"][0], 1024);
}

TEST_F(StackProfiles, speedscope_joins_stacks_that_differ_only_in_their_source) {
  const StackId main = stack({}, "main", 3);
  sample(main, MemorySource::parameters, 512, 512);
  sample(main, MemorySource::gradients, 1024, 1024);
  sample(main, MemorySource::gradients, 2048, 2048, true);
  sample({}, MemorySource::unknown, 4096, 0);
  const auto file = nlohmann::json::parse(speedscope_profile({profile_}, store_, about_));
  ASSERT_EQ(file["profiles"].size(), 2U);
  const auto& in_use = file["profiles"][0];
  EXPECT_EQ(in_use["weights"], (std::vector<int>{1536, 2048}));
  EXPECT_EQ(in_use["endValue"], 3584);
  EXPECT_EQ(in_use["samples"][1].size(), 2U);  // main, and [backward] below it
  EXPECT_EQ(file["profiles"][1]["endValue"], 7680);
  EXPECT_NE(file["name"].get<std::string>().find("12 events were lost"), std::string::npos);
}

TEST_F(StackProfiles, a_moment_decides_what_is_in_use) {
  const ProfiledMoment peak = profiled_moment(0, {}, {AskedMoment::Kind::event, 5});
  EXPECT_TRUE(peak.is_born_by(5));
  EXPECT_FALSE(peak.is_born_by(6));
  EXPECT_TRUE(peak.is_born_by(kNoEvent));
  EXPECT_TRUE(peak.is_freed_by(5));
  EXPECT_FALSE(peak.is_freed_by(6));
  EXPECT_FALSE(peak.is_freed_by(kNoEvent));
  // Without a history, the end is all that is known.
  EXPECT_TRUE(profiled_moment(0, {}, {}).is_end);
}

}  // namespace
}  // namespace gpumemprof
