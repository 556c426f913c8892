// Labels in a .gmp file: what the format guarantees for them, and for files older than labels.
#include "trace/content/labels.h"

#include <gtest/gtest.h>

#include <limits>

#include "store/store_source.h"
#include "support.h"
#include "trace/block.h"
#include "trace/checksum.h"
#include "trace/format.h"

namespace gpumemprof::test {
namespace {

// A file of any version, with one block of this content after an empty definitions block.
Bytes file_of(std::uint16_t version, trace::BlockKind kind, const trace::OutBytes& content) {
  trace::OutBytes out;
  out.bytes(trace::kMagic);
  out.fixed(version);
  out.fixed(std::uint16_t{0});
  out.fixed(static_cast<std::uint32_t>(trace::checksum(out.span())));
  trace::BlockPacker packer(0);
  packer.pack(kind, content.span(), out);
  return {out.span().begin(), out.span().end()};
}

TEST(TraceLabels, survive_a_second_writing_from_a_store) {
  Store store;
  add_a_bit_of_everything(store);
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("again.gmp"));
  ASSERT_TRUE(StoreSource(store).deliver(*writer));
  ASSERT_TRUE(writer->close("converted"));
  const Opened again = open_bytes(read_bytes(folder.file("again.gmp")));
  ASSERT_NE(again.store, nullptr);
  EXPECT_EQ(describe(*again.store), describe(store));
}

TEST(TraceLabels, are_not_delivered_with_events_that_replace_those_they_were_for) {
  Store store;
  add_a_bit_of_everything(store);
  StoreSource source(store);
  source.replace_events(0, EventColumns());
  Store sink;
  ASSERT_TRUE(source.deliver(sink));
  EXPECT_EQ(sink.label_set_count(), 0U);
}

TEST(TraceLabels, fill_as_many_blocks_as_they_need) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("many.gmp"));
  const StringId name = writer->add_string("weight");
  constexpr std::uint32_t kSets = 40;
  std::vector<Label> labels(kMaxLabelsPerSet);
  for (std::uint32_t set = 0; set < kSets; ++set) {
    for (std::size_t row = 0; row < labels.size(); ++row)
      labels[row] = {LabelKind::gradient, (row * 0x9E3779B97F4A7C15ULL) ^ set, name};
    EXPECT_EQ(writer->add_label_set(labels), set);
    writer->add_labelling({0, set, set});
  }
  ASSERT_TRUE(writer->close("exit 0"));
  const Opened opened = open_bytes(read_bytes(folder.file("many.gmp")));
  ASSERT_NE(opened.store, nullptr);
  EXPECT_FALSE(opened.store->origin().cut);
  ASSERT_EQ(opened.store->label_set_count(), kSets);
  EXPECT_EQ(opened.store->label_set(kSets - 1).back(), labels.back());
  EXPECT_EQ(opened.store->devices().at(0)->labellings.size(), kSets);
}

TEST(TraceLabels, that_name_what_was_never_added_are_refused_by_the_writer) {
  const TempFolder folder;
  {
    const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("a.gmp"));
    const Label label{LabelKind::input, 1, StringId(77)};
    writer->add_label_set({&label, 1});
    EXPECT_FALSE(writer->status());
  }
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("b.gmp"));
  writer->add_labelling({0, 0, 0});
  EXPECT_FALSE(writer->status());
}

TEST(TraceLabels, of_an_unknown_kind_name_or_set_are_damage) {
  const auto is_cut = [](const auto& fill) {
    trace::OutBytes content;
    fill(content);
    const Opened opened = open_bytes(file_of(trace::kVersion, trace::BlockKind::labels, content));
    return opened.store->origin().cut.has_value();
  };
  const auto empty = [](trace::OutBytes& out) {
    for (int list = 0; list < 4; ++list) out.varint(0);
  };
  EXPECT_FALSE(is_cut(empty));
  const auto one_label = [](std::uint8_t kind, std::int64_t name) {
    return [=](trace::OutBytes& out) {
      out.varint(1);
      out.varint(1);
      out.byte(kind);
      out.signed_varint(5);
      out.signed_varint(name);
      for (int list = 0; list < 3; ++list) out.varint(0);
    };
  };
  EXPECT_FALSE(is_cut(one_label(4, 0)));
  EXPECT_FALSE(is_cut(one_label(4, -1)));
  EXPECT_TRUE(is_cut(one_label(5, 0)));
  EXPECT_TRUE(is_cut(one_label(0, 1)));
  EXPECT_TRUE(is_cut(one_label(0, std::numeric_limits<std::int64_t>::min())));
  EXPECT_TRUE(is_cut([](trace::OutBytes& out) {
    out.varint(0);
    out.varint(0);
    out.varint(1);
    out.signed_varint(0);
    out.varint(0);  // a set that was never defined
    out.varint(0);
    out.varint(0);
  }));
}

TEST(TraceVersions, a_file_of_the_first_version_has_no_labels_and_shorter_samples) {
  trace::OutBytes marks;
  marks.varint(0);
  marks.varint(0);
  marks.varint(1);
  marks.signed_varint(0);
  marks.signed_varint(99);
  for (const unsigned bytes : {81U, 71U, 61U}) marks.varint(bytes);
  const Opened old = open_bytes(file_of(1, trace::BlockKind::annotations, marks));
  ASSERT_NE(old.store, nullptr) << old.refusal;
  EXPECT_FALSE(old.store->origin().cut);
  ASSERT_EQ(old.store->samples().size(), 1U);
  const DeviceSample& sample = old.store->samples()[0];
  EXPECT_EQ(sample.total_bytes, 80U);
  EXPECT_EQ(sample.process_bytes, 60U);
  EXPECT_EQ(sample.other_processes_bytes, kUnknownBytes);
  EXPECT_EQ(sample.firmware_bytes, kUnknownBytes);
  EXPECT_EQ(sample.before_event, kNoEvent);

  trace::OutBytes labels;
  for (int list = 0; list < 4; ++list) labels.varint(0);
  EXPECT_TRUE(open_bytes(file_of(1, trace::BlockKind::labels, labels)).store->origin().cut);
}

TEST(TraceVersions, a_newer_file_is_refused_with_both_versions) {
  const Opened newer = open_bytes(file_of(4, trace::BlockKind::annotations, trace::OutBytes()));
  EXPECT_EQ(newer.store, nullptr);
  EXPECT_NE(newer.refusal.find("version 4"), std::string::npos) << newer.refusal;
  EXPECT_NE(newer.refusal.find("up to 3"), std::string::npos) << newer.refusal;
}

}  // namespace
}  // namespace gpumemprof::test
