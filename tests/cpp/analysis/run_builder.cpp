#include "analysis/run_builder.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kSegmentUnit = 2 * kMiB;

std::uint64_t segment_bytes(std::uint64_t size_bytes) {
  return (size_bytes + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit;
}
std::uint64_t block_bytes(std::uint64_t size_bytes) { return (size_bytes + 511) / 512 * 512; }

}  // namespace

StackId RunBuilder::stack(const std::vector<std::string_view>& frames) {
  StackId stack;
  for (const std::string_view frame : frames) {
    const std::size_t at = frame.find('@');
    std::string file = frame[at + 1] == '/' ? "" : "/venv/lib/python3.12/site-packages/";
    file += frame.substr(at + 1);
    stack = store_.add_stack(stack, store_.add_frame({store_.add_string(frame.substr(0, at)),
                                                      store_.add_string(file), 1}));
  }
  return stack;
}

void RunBuilder::add(Action action, std::uint64_t address, std::uint64_t size_bytes,
                     StackId stack) {
  Event event;
  event.action = action;
  event.address = address;
  event.size_bytes = size_bytes;
  event.stream = store_.add_stream(0);
  event.time_ns = static_cast<std::int64_t>(++events_) * 1000;
  event.stack = stack;
  event.module = module_;
  columns_.push_back(event);
}

std::uint32_t RunBuilder::module(std::string_view path, std::string_view class_name) {
  ModuleLabel label;
  label.path = store_.add_string(path);
  label.class_name = store_.add_string(class_name);
  label.number = modules_++;
  label.is_root = path.empty();
  store_.add_module(label);
  return label.number;
}

std::size_t RunBuilder::alloc(std::uint64_t size_bytes, StackId stack) {
  if (!is_over_ && events_ >= fails_at_) {
    is_over_ = true;
    oom(size_bytes, stack);
  }
  if (is_over_) return 0;
  std::uint64_t address = next_address_;
  if (const auto freed = free_.find(size_bytes); freed != free_.end()) {
    address = freed->second;
    free_.erase(freed);
  } else {
    next_address_ += segment_bytes(size_bytes) + kSegmentUnit;
    add(Action::segment_alloc, address, segment_bytes(size_bytes), stack);
  }
  add(Action::alloc, address, size_bytes, stack);
  blocks_.push_back({address, size_bytes, stack, true});
  return blocks_.size() - 1;
}

void RunBuilder::free(std::size_t allocation, StackId stack) {
  if (is_over_) return;
  Block& block = blocks_[allocation];
  block.is_live = false;
  add(Action::free_requested, block.address, block.size_bytes, stack);
  add(Action::free_completed, block.address, block.size_bytes, stack);
  if (reuses_) free_.emplace(block.size_bytes, block.address);
}

void RunBuilder::oom(std::uint64_t size_bytes, StackId stack) {
  add(Action::oom, 0, size_bytes, stack);
}

void RunBuilder::forget() { columns_ = EventColumns(); }

void RunBuilder::label(std::size_t allocation, LabelKind kind, std::string_view name) {
  const Label row{kind, blocks_.at(allocation).address, store_.add_string(name)};
  store_.add_labelling({0, store_.add_label_set({&row, 1}), events()});
}

void RunBuilder::annotate(std::string_view name, Annotation::Stage stage) {
  // Between the last event and the next.
  store_.add_annotation(
      {store_.add_string(name), stage, 0, static_cast<std::int64_t>(events_) * 1000 + 500});
}

void RunBuilder::finish() {
  store_.add_events(0, std::move(columns_));
  std::map<std::uint64_t, Block> last;  // by address
  for (const Block& block : blocks_) last[block.address] = block;
  for (const auto& [address, block] : last) {
    SegmentState segment;
    segment.address = address;
    segment.size_bytes = segment_bytes(block.size_bytes);
    segment.is_small = block.size_bytes <= kMiB;
    const std::uint64_t size = block_bytes(block.size_bytes);
    std::vector<BlockState> states;
    if (block.is_live) {
      states.push_back(
          {block.address, size, block.size_bytes, BlockStateKind::active_allocated, block.stack});
      if (size < segment.size_bytes)
        states.push_back({block.address + size, segment.size_bytes - size, 0,
                          BlockStateKind::inactive, StackId()});
    } else {
      states.push_back({block.address, segment.size_bytes, 0, BlockStateKind::inactive, StackId()});
    }
    store_.add_segment(StateEdge::end, segment, states);
  }
  Origin origin;
  origin.has_traces = true;
  origin.has_segments = true;
  origin.device_type = device_type_;
  store_.set_origin(origin);
  DeviceRecord& record = *store_.devices()[0];
  replay_ = replay_device(record, store_.settings(), store_.origin());
  phases_ = find_phases(store_, record);
  record.labels = label_allocations(store_, record, phases_);
}

MemorySource RunBuilder::source(std::size_t allocation) const {
  const AllocationColumns& rows = record().allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows.address[row] == blocks_[allocation].address) return record().labels.source[row];
  }
  ADD_FAILURE() << "there is no allocation " << allocation;
  return MemorySource::unknown;
}

DeviceSources RunBuilder::sources(const SourcesOptions& options) const {
  return find_sources(store_, record(), replay_, record().labels, phases_, options);
}

}  // namespace gpumemprof
