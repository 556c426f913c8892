#include "capture/output/chapters/chapters.h"

#include <algorithm>

namespace gpumemprof::capture {
namespace {

constexpr std::size_t kNamesToSpare = 10'000;

}  // namespace

LiveDevice& Chapters::device(DeviceSlot slot) {
  if (!devices_[slot])
    devices_[slot] = std::make_unique<LiveDevice>(settings_, memory_ == MemoryKind::cuda);
  return *devices_[slot];
}

void Chapters::set_settings(const AllocatorSettings& settings) { settings_ = settings; }

void Chapters::begin_join() {
  for (auto& one : devices_) one.reset();
  events_ = 0;
}

std::uint32_t Chapters::stream_row(std::uint64_t handle) {
  std::uint32_t& row = stream_rows_.find_or_insert(handle, kNoEvent);
  if (row == kNoEvent) {
    row = static_cast<std::uint32_t>(streams_.size());
    streams_.push_back(handle);
  }
  return row;
}

std::uint32_t Chapters::pool_row(PoolId pool) {
  const auto [found, is_new] = pool_rows_.emplace(pool, static_cast<std::uint32_t>(pools_.size()));
  if (is_new) pools_.push_back(pool);
  return found->second;
}

void Chapters::begin(DeviceSlot slot) { device(slot); }

void Chapters::add_start(const std::vector<ListedSegment>& segments) {
  std::map<DeviceSlot, ListedState> states;
  for_each_device([&](DeviceSlot slot, LiveDevice&) { states[slot]; });
  for (const ListedSegment& listed : segments) {
    const std::optional<DeviceSlot> slot = cuda_slot(listed.device);
    if (!slot) continue;
    ListedState& state = states[*slot];
    SegmentState segment;
    segment.device = listed.device;
    segment.address = listed.address;
    segment.size_bytes = listed.size_bytes;
    segment.stream = stream_row(listed.stream);
    segment.pool = pool_row(listed.pool);
    segment.is_small = listed.is_small;
    segment.is_expandable = listed.is_expandable;
    state.segments.push_back(segment);
    for (const ListedBlock& block : listed.blocks)
      state.blocks.push_back(
          {block.address, block.size_bytes, block.requested_bytes, block.state, StackId()});
    state.first_block.push_back(static_cast<std::uint32_t>(state.blocks.size()));
  }
  for (auto& [slot, state] : states) {
    if (LiveDevice& mine = device(slot); !mine.has_begun()) mine.begin(std::move(state));
  }
}

void Chapters::take(const DrainedEvent& event, std::int64_t time_ns) {
  Event row;
  row.action = event.action;
  row.address = event.address;
  row.size_bytes = event.size_bytes;
  row.stream = stream_row(event.stream);
  row.time_ns = time_ns;
  row.stack = event.stack;
  row.forward_stack = event.forward_stack;
  row.module = event.module;
  if (memory_ == MemoryKind::cuda) row.pool = pool_row(event.pool);
  device(event.device).take(row, event.tag);
  ++events_;
  if (first_time_ns_ == kUnknownTime) first_time_ns_ = time_ns;
  last_time_ns_ = std::max(last_time_ns_, time_ns);
}

void Chapters::mark(PhaseMark::Kind kind, std::uint32_t number) {
  for_each_device([&](DeviceSlot, LiveDevice& live) { live.mark(kind, number); });
}

void Chapters::label(LabelSetNumber set, const std::vector<StorageLabel>& labels) {
  auto names = set_names_.find(set);
  if (names == set_names_.end()) {
    names = set_names_.emplace(set, std::vector<StringId>()).first;
    for (const StorageLabel& label : labels) names->second.push_back(names_->intern(label.name));
  }
  for_each_device([](DeviceSlot, LiveDevice& live) { live.play(); });
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::optional<DeviceSlot> slot = slot_of(labels[row].device);
    if (slot && devices_[*slot])
      devices_[*slot]->label(labels[row].address, labels[row].kind, names->second[row]);
  }
}

void Chapters::describe(const std::vector<ModuleDescription>& modules,
                        const std::vector<std::uint32_t>& numbers) {
  for (std::size_t row = 0; row < modules.size(); ++row) {
    const Described described{modules[row], numbers[row]};
    if (numbers[row] != kNoModule) {
      described_.insert_or_assign(numbers[row], described);
    } else {
      described_without_number_.insert_or_assign(modules[row].path + '\0' + modules[row].class_name,
                                                 described);
    }
  }
}

bool Chapters::is_full(std::uint64_t size_bytes, std::int64_t time_ns) const {
  const ChapterLimits& limits = shelf_->limits();
  if (events_ < limits.events_of(number_) && size_bytes < start_bytes_ + limits.chapter_bytes() &&
      time_ns - first_time_ns_ < limits.chapter_ns)
    return false;
  return std::ranges::all_of(devices_,
                             [](const auto& live) { return live == nullptr || live->has_begun(); });
}

void Chapters::begin_next(TraceWriter& writer, FileIds& ids, const StackMirror& mirror,
                          const std::vector<std::string>& tags, std::vector<ChapterDevice> before) {
  ++number_;
  ids.describe_modules(
      [&] {
        std::vector<ModuleDescription> modules;
        for (const auto& [key, one] : described_without_number_) modules.push_back(one.module);
        for (const auto& [key, one] : described_) modules.push_back(one.module);
        return modules;
      }(),
      [&] {
        std::vector<std::uint32_t> numbers(described_without_number_.size(), kNoModule);
        for (const auto& [number, one] : described_) numbers.push_back(number);
        return numbers;
      }());
  ChapterStart start;
  start.number = number_;
  start.devices = std::move(before);
  start.is_exact = is_exact_;
  for_each_device([&](DeviceSlot slot, LiveDevice& live) {
    live.play();
    start.is_exact &= live.is_exact();
    write_start(slot, live, writer, ids, mirror, tags, start);
  });
  writer.add_chapter_start(start);
  shorten_names();
}

void Chapters::write_start(DeviceSlot slot, const LiveDevice& live, TraceWriter& writer,
                           FileIds& ids, const StackMirror& mirror,
                           const std::vector<std::string>& tags, ChapterStart& start) {
  const ListedState state = live.listed();
  std::vector<BlockState> blocks;
  for (std::size_t index = 0; index < state.segments.size(); ++index) {
    SegmentState segment = state.segments[index];
    const std::uint32_t stream = segment.stream;
    segment.device = index_in_file(slot);
    segment.stream = ids.stream(streams_[stream]);
    if (segment.pool != kNoPool) segment.pool = ids.pool(pools_[segment.pool]);
    segment.stack = ids.stack(segment.stack, mirror);
    const auto listed = state.blocks_of(index);
    blocks.assign(listed.begin(), listed.end());
    for (BlockState& block : blocks) {
      block.stack = ids.stack(block.stack, mirror);
      const LiveDevice::Detail* detail =
          block.state == BlockStateKind::inactive ? nullptr : live.detail(block.address);
      if (detail == nullptr) continue;
      LiveAllocation found;
      found.device = segment.device;
      found.address = block.address;
      found.time_ns = detail->time_ns;
      found.stream = segment.stream;
      found.forward_stack = ids.stack(detail->forward_stack, mirror);
      if (detail->tag != 0) found.user_metadata = ids.tag(detail->tag, tags);
      found.module = ids.module(detail->module, mirror);
      start.live.push_back(found);
    }
    writer.add_segment(StateEdge::start, segment, blocks);
  }
  write_labels(slot, state, live, writer, start);
}

void Chapters::write_labels(DeviceSlot slot, const ListedState& state, const LiveDevice& live,
                            TraceWriter& writer, ChapterStart& start) {
  std::vector<Label> labels;
  const auto write = [&] {
    if (labels.empty()) return;
    writer.add_labelling({index_in_file(slot), writer.add_label_set(labels), 0});
    ++start.repeated_sets;
    labels.clear();
  };
  for (const BlockState& block : state.blocks) {
    if (block.state != BlockStateKind::active_allocated) continue;
    const LiveDevice::Detail* detail = live.detail(block.address);
    if (detail == nullptr || !detail->is_labelled) continue;
    labels.push_back({detail->label, block.address, writer.add_string(names_->text(detail->name))});
    if (labels.size() == kMaxLabelsPerSet) write();
  }
  write();
}

void Chapters::shorten_names() {
  std::size_t used = 0;
  for (const auto& [set, names] : set_names_) used += names.size();
  if (names_->size() < 2 * used + kNamesToSpare) return;
  auto shorter = std::make_unique<Interner>();
  const auto renamed = [&](StringId name) { return shorter->intern(names_->text(name)); };
  for_each_device([&](DeviceSlot, LiveDevice& live) { live.rename(renamed); });
  for (auto& [set, names] : set_names_) {
    for (StringId& name : names) name = renamed(name);
  }
  names_ = std::move(shorter);
}

Status Chapters::end(std::uint64_t size_bytes) {
  ChapterFigures figures;
  figures.number = number_;
  figures.is_kept = true;
  figures.size_bytes = size_bytes;
  figures.first_time_ns = first_time_ns_;
  figures.last_time_ns = last_time_ns_;
  figures.events = events_;
  std::vector<StepSummary> steps;
  for_each_device([&](DeviceSlot slot, LiveDevice& live) {
    live.play();
    figures.failures += live.failures();
    figures.retries += live.retries();
    for (StepSummary& step : live.take_steps()) {
      step.device = index_in_file(slot);
      figures.first_step =
          figures.first_step == 0 ? step.first : std::min(figures.first_step, step.first);
      figures.last_step = std::max(figures.last_step, step.last);
      steps.push_back(step);
    }
    figures.devices.push_back(live.end_chapter(index_in_file(slot)));
  });
  std::ranges::stable_sort(steps, {}, &StepSummary::first);
  events_ = 0;
  first_time_ns_ = last_time_ns_ = kUnknownTime;
  return shelf_->add(std::move(figures), std::move(steps));
}

}  // namespace gpumemprof::capture
