// Labels in a .gmp file: what the format guarantees for them.
#include "trace/content/labels.h"

#include <gtest/gtest.h>

#include <limits>

#include "store/store_source.h"
#include "support.h"
#include "trace/block.h"

namespace gpumemprof::test {
namespace {

// A file with one block of labels.
Bytes file_of(const trace::OutBytes& content) {
  trace::OutBytes out;
  trace::append_file_header(out);
  trace::BlockPacker packer(0);
  packer.pack(trace::BlockKind::labels, content.span(), out);
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
    const Opened opened = open_bytes(file_of(content));
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

}  // namespace
}  // namespace gpumemprof::test
