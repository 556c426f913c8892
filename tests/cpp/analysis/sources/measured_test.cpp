// Labels in a recording: which allocation they apply to, and what follows from them.
#include "analysis/sources/measured.h"

#include <gtest/gtest.h>

#include "analysis/modules/module_names.h"
#include "replay/replay.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kHere = 0x1000;
constexpr std::uint64_t kThere = 0x2000;

// CPU memory, where a block has exactly the requested size.
class Labels : public ::testing::Test {
 protected:
  Labels() {
    store_.add_stream(0);
    Origin origin;
    origin.device_type = "cpu";
    origin.has_start = true;
    origin.has_traces = true;
    store_.set_origin(origin);
  }

  std::uint32_t alloc(std::uint64_t address, StackId stack = {}) {
    return add(Action::alloc, address, stack);
  }
  void free(std::uint64_t address) {
    add(Action::free_requested, address, {});
    add(Action::free_completed, address, {});
  }
  void label(std::uint32_t before_event, LabelKind kind, std::uint64_t address,
             std::string_view name) {
    const Label row{kind, address, store_.add_string(name)};
    store_.add_labelling({0, store_.add_label_set({&row, 1}), before_event});
  }
  void mark(PhaseMark::Kind kind, std::uint32_t number, std::uint32_t before_event) {
    store_.add_phase_mark({0, kind, number, before_event});
  }

  DeviceRecord& replayed() {
    store_.add_events(0, std::move(events_));
    DeviceRecord& record = *store_.devices().at(0);
    replay_device(record, store_.settings(), store_.origin());
    return record;
  }
  static AllocationLabels blank(const DeviceRecord& record) {
    AllocationLabels labels;
    labels.source.resize(record.allocations.size(), MemorySource::unknown);
    labels.flags.resize(record.allocations.size(), 0);
    return labels;
  }
  AllocationLabels taken(const DeviceRecord& record) {
    AllocationLabels labels = blank(record);
    EXPECT_TRUE(take_labels(store_, record, nullptr, labels));
    return labels;
  }
  std::string name(const AllocationLabels& labels, std::size_t row) {
    return std::string(store_.text(labels.name[row]));
  }

  Store store_;
  EventColumns events_;

 private:
  std::uint32_t add(Action action, std::uint64_t address, StackId stack) {
    events_.push_back({action,
                       address,
                       512,
                       0,
                       static_cast<std::int64_t>(events_.size()),
                       stack,
                       {},
                       {},
                       kNoPool,
                       {}});
    return static_cast<std::uint32_t>(events_.size() - 1);
  }
};

TEST_F(Labels, name_the_allocation_that_was_live_there_then) {
  alloc(kHere);  // 0
  free(kHere);   // 1, 2
  alloc(kHere);  // 3
  free(kHere);   // 4, 5
  alloc(kHere);  // 6
  label(4, LabelKind::gradient, kHere, "w.grad");
  DeviceRecord& record = replayed();
  const AllocationLabels labels = taken(record);
  EXPECT_EQ(labels.source[0], MemorySource::unknown);
  EXPECT_EQ(labels.source[1], MemorySource::gradients);
  EXPECT_EQ(name(labels, 1), "w.grad");
  EXPECT_TRUE(labels.is_measured(1));
  EXPECT_EQ(labels.source[2], MemorySource::unknown);
}

TEST_F(Labels, of_memory_that_is_gone_or_unknown_name_nothing) {
  alloc(kHere);
  free(kHere);
  label(3, LabelKind::gradient, kHere, "late");
  label(3, LabelKind::gradient, 77, "elsewhere");
  label(3, LabelKind::gradient, ~std::uint64_t{0}, "nowhere");
  DeviceRecord& record = replayed();
  EXPECT_EQ(taken(record).source[0], MemorySource::unknown);
}

TEST_F(Labels, that_are_said_again_name_what_was_allocated_meanwhile) {
  alloc(kHere);  // 0
  free(kHere);   // 1, 2
  alloc(kHere);  // 3
  const Label row{LabelKind::gradient, kHere, store_.add_string("w.grad")};
  const std::uint32_t set = store_.add_label_set({&row, 1});
  store_.add_labelling({0, set, 1});
  store_.add_labelling({0, set, 4});
  store_.add_labelling({0, set, 4});
  DeviceRecord& record = replayed();
  const AllocationLabels labels = taken(record);
  EXPECT_EQ(labels.source[0], MemorySource::gradients);
  EXPECT_EQ(labels.source[1], MemorySource::gradients);
}

TEST_F(Labels, what_a_module_owns_counts_most_whatever_else_it_is) {
  alloc(kHere);
  alloc(kThere);
  label(2, LabelKind::input, kHere, "input.0");
  label(2, LabelKind::parameter, kHere, "w");
  label(2, LabelKind::gradient, kHere, "w.grad");
  label(2, LabelKind::buffer, kThere, "b");
  DeviceRecord& record = replayed();
  const AllocationLabels labels = taken(record);
  EXPECT_EQ(labels.source[0], MemorySource::parameters);
  EXPECT_EQ(name(labels, 0), "w");
  EXPECT_EQ(labels.flags[0] & AllocationLabels::kBuffer, 0);
  EXPECT_EQ(labels.source[1], MemorySource::parameters);
  EXPECT_NE(labels.flags[1] & AllocationLabels::kBuffer, 0);
}

TEST_F(Labels, of_one_kind_the_last_one_counts) {
  alloc(kHere);
  alloc(kThere);
  label(1, LabelKind::parameter, kHere, "weight");
  label(2, LabelKind::parameter, kHere, "h.0.weight");
  DeviceRecord& record = replayed();
  EXPECT_EQ(name(taken(record), 0), "h.0.weight");
}

TEST_F(Labels, a_recording_without_any_says_so) {
  alloc(kHere);
  DeviceRecord& record = replayed();
  AllocationLabels labels = blank(record);
  EXPECT_FALSE(take_labels(store_, record, nullptr, labels));
}

TEST_F(Labels, a_set_repeated_for_ever_ends) {
  alloc(kHere);
  const std::vector<Label> large(kMaxLabelsPerSet, {LabelKind::input, kThere, StringId()});
  const std::uint32_t first = store_.add_label_set(large);
  const std::uint32_t second = store_.add_label_set(large);
  for (std::uint32_t round = 0; round < 100'000; ++round) {
    alloc(0x10000 + std::uint64_t{round} * 512);
    store_.add_labelling({0, round % 2 == 0 ? first : second, round + 1});
  }
  DeviceRecord& record = replayed();
  taken(record);  // would take billions of steps without the limit
}

TEST_F(Labels, memory_made_where_inputs_were_made_is_inputs_too) {
  const Frame frame{store_.add_string("main"), store_.add_string("train.py"), 7};
  const StackId line = store_.add_stack(StackId(), store_.add_frame(frame));
  alloc(kHere, line);
  alloc(kThere, line);
  alloc(0x3000);
  label(1, LabelKind::input, kHere, "ids");
  DeviceRecord& record = replayed();
  AllocationLabels labels = taken(record);
  settle_by_labels(store_, record, {}, nullptr, labels);
  EXPECT_EQ(labels.source[1], MemorySource::inputs);
  EXPECT_FALSE(labels.is_measured(1));
  EXPECT_EQ(name(labels, 1), "ids");
  EXPECT_EQ(labels.source[2], MemorySource::unknown);
}

TEST_F(Labels, what_a_model_made_and_is_fed_again_is_no_input) {
  const Frame frame{store_.add_string("Net.forward"), store_.add_string("net.py"), 9};
  const StackId forward = store_.add_stack(StackId(), store_.add_frame(frame));
  alloc(kHere, forward);
  alloc(kThere, forward);
  label(2, LabelKind::input, kHere, "past");
  label(2, LabelKind::buffer, kThere, "cache");
  DeviceRecord& record = replayed();
  const AllocationLabels labels = taken(record);
  EXPECT_EQ(labels.source[0], MemorySource::unknown);
  EXPECT_EQ(labels.source[1], MemorySource::parameters);
}

TEST_F(Labels, a_buffer_that_every_forward_makes_anew_is_known_by_its_line) {
  const Frame frame{store_.add_string("Net.forward"), store_.add_string("net.py"), 9};
  const StackId forward = store_.add_stack(StackId(), store_.add_frame(frame));
  alloc(kHere, forward);   // 0, labelled
  alloc(kThere, forward);  // 1, freed in the next forward
  alloc(0x3000, forward);  // 2, freed in backward
  free(0x3000);            // 3, 4
  free(kThere);            // 5, 6
  label(1, LabelKind::buffer, kHere, "mean");
  DeviceRecord& record = replayed();
  AllocationLabels labels = taken(record);
  labels.source[1] = labels.source[2] = MemorySource::activations;
  settle_by_labels(store_, record,
                   {{0, Phase::forward, 1}, {3, Phase::backward, 1}, {5, Phase::forward, 2}},
                   nullptr, labels);
  EXPECT_EQ(labels.source[1], MemorySource::parameters);
  EXPECT_FALSE(labels.is_measured(1));
  EXPECT_EQ(name(labels, 1), "mean");
  EXPECT_EQ(labels.source[2], MemorySource::activations);
}

TEST_F(Labels, activations_and_temporaries_are_measured_where_phases_prove_them) {
  alloc(kHere);                              // 0, forward: lives until backward
  alloc(kThere);                             // 1, forward: freed in it
  free(kThere);                              // 2, 3
  free(kHere);                               // 4, 5, backward
  const std::uint32_t late = alloc(0x3000);  // 6, backward, stays live
  label(0, LabelKind::input, 1, "x");
  DeviceRecord& record = replayed();
  AllocationLabels labels = taken(record);
  labels.source[0] = MemorySource::activations;
  labels.source[1] = MemorySource::temporaries;
  labels.source[2] = MemorySource::activations;
  settle_by_labels(store_, record, {{0, Phase::forward, 1}, {4, Phase::backward, 1}}, nullptr,
                   labels);
  EXPECT_TRUE(labels.is_measured(0));
  EXPECT_TRUE(labels.is_measured(1));
  EXPECT_EQ(late, 6U);
  EXPECT_FALSE(labels.is_measured(2));
}

TEST_F(Labels, what_was_gone_before_the_peak_does_not_make_a_source_inferred) {
  alloc(0x3000);  // 0, a weight that is replaced before any label could name it
  free(0x3000);   // 1, 2
  alloc(kHere);   // 3
  alloc(kThere);  // 4, the peak
  label(4, LabelKind::parameter, kHere, "weight");
  DeviceRecord& record = replayed();
  AllocationLabels labels = taken(record);
  labels.has_recorded = true;
  labels.source[0] = MemorySource::parameters;
  labels.source[2] = MemorySource::activations;
  DeviceReplay replay;
  replay.has_history = true;
  replay.peak_event = 4;
  const DeviceSources sources = find_sources(store_, record, replay, labels, {});
  EXPECT_EQ(sources.figure(MemorySource::parameters).provenance, Provenance::measured);
  EXPECT_EQ(sources.figure(MemorySource::activations).provenance, Provenance::inferred);
}

TEST_F(Labels, steps_of_optimizers_are_spans_of_events) {
  for (std::uint64_t row = 0; row < 20; ++row) alloc(kHere + row * 512);
  mark(PhaseMark::Kind::optimizer_end, 0, 1);  // its start was before the recording
  mark(PhaseMark::Kind::optimizer_start, 0, 3);
  mark(PhaseMark::Kind::optimizer_start, 1, 4);  // nested
  mark(PhaseMark::Kind::optimizer_end, 1, 5);
  mark(PhaseMark::Kind::optimizer_end, 0, 6);
  mark(PhaseMark::Kind::optimizer_start, 0, 9);
  const std::vector<MarkedStep> steps = marked_optimizer_steps(replayed());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].first_event, 3U);
  EXPECT_EQ(steps[0].end_event, 5U);
  EXPECT_EQ(steps[1].first_event, 9U);
  EXPECT_EQ(steps[1].end_event, 20U);  // it never ended
}

TEST_F(Labels, a_step_ends_with_the_last_of_several_optimizers) {
  for (std::uint64_t row = 0; row < 40; ++row) alloc(kHere + row * 512);
  for (std::uint32_t step = 0; step < 3; ++step) {
    mark(PhaseMark::Kind::optimizer_start, 0, step * 10 + 3);
    mark(PhaseMark::Kind::optimizer_end, 0, step * 10 + 4);
    mark(PhaseMark::Kind::optimizer_start, 1, step * 10 + 6);
    mark(PhaseMark::Kind::optimizer_end, 1, step * 10 + 8);
  }
  EXPECT_EQ(marked_step_ends(replayed()), (std::vector<std::uint32_t>{8, 18, 28}));
}

class Modules : public ::testing::Test {
 protected:
  void module(std::string_view path, std::string_view class_name, std::uint32_t line) {
    store_.add_module({store_.add_string(path), store_.add_string(class_name),
                       store_.add_string("net.py"), line, line + 7});
  }
  FrameId frame(std::uint32_t line, std::string_view file = "net.py") {
    return store_.add_frame({store_.add_string("forward"), store_.add_string(file), line});
  }
  Store store_;
};

TEST_F(Modules, share_a_name_where_they_run_the_same_lines) {
  module("", "Net", 50);
  for (const char* layer : {"h.0", "h.1", "h.2"}) {
    module(layer, "Block", 30);
    module(std::string(layer) + ".mlp", "Mlp", 10);
    module(std::string(layer) + ".mlp.up", "Linear", 1);
    module(std::string(layer) + ".attention.out", "Linear", 1);
  }
  module("head", "Linear", 1);
  const ModuleNames names(store_);
  const auto net = names.inside({}, frame(55));
  EXPECT_EQ(names.name_of(net), "Net");
  const auto block = names.inside(net, frame(33));
  EXPECT_EQ(names.name_of(block), "h.*");
  const auto mlp = names.inside(block, frame(12));
  EXPECT_EQ(names.name_of(mlp), "h.*.mlp");
  EXPECT_EQ(names.name_of(names.inside(mlp, frame(2))), "h.*.mlp.up");
  EXPECT_EQ(names.name_of(names.inside(block, frame(2))), "h.*.*.*");
  EXPECT_EQ(names.name_of(names.inside(net, frame(2))), "*.*");
}

TEST_F(Modules, that_are_not_described_have_no_name) {
  module("", "Net", 50);
  const ModuleNames names(store_);
  EXPECT_TRUE(names.inside({}, frame(55, "other.py")).empty());
  EXPECT_TRUE(names.inside({}, frame(49)).empty());
  EXPECT_TRUE(names.inside({}, frame(58)).empty());
  EXPECT_EQ(names.name_of({}), "");
}

}  // namespace
}  // namespace gpumemprof
