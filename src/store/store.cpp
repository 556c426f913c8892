#include "store/store.h"

#include <algorithm>

#include "event/rules/plausible.h"

namespace gpumemprof {
FrameId Store::add_frame(const Frame& frame) {
  const std::uint64_t hash = (std::uint64_t{frame.name.index} * 0x9E3779B97F4A7C15ULL) ^
                             (std::uint64_t{frame.file.index} << 32) ^ frame.line;
  const std::uint64_t key = hash == FlatMap<std::uint32_t>::kEmpty ? 0 : hash;
  const auto fresh = static_cast<std::uint32_t>(frames_.size());
  std::uint32_t& first = frames_by_hash_.find_or_insert(key, fresh);
  for (std::uint32_t row = first; row != fresh && row != FrameId::kNone;
       row = next_same_frame_hash_[row]) {
    if (frames_[row] == frame) return FrameId(row);
  }
  next_same_frame_hash_.push_back(first == fresh ? FrameId::kNone : first);
  first = fresh;
  frames_.push_back(frame);
  return FrameId(fresh);
}

std::uint32_t Store::add_stream(std::uint64_t handle) {
  const std::uint64_t key = handle == FlatMap<std::uint32_t>::kEmpty ? 0 : handle;
  const auto fresh = static_cast<std::uint32_t>(streams_.size());
  const std::uint32_t row = streams_by_handle_.find_or_insert(key, fresh);
  if (row == fresh) streams_.push_back(handle);
  return row;
}

std::uint32_t Store::add_pool(PoolId pool) {
  if (last_pool_ < pools_.size() && pools_[last_pool_] == pool) return last_pool_;
  const auto fresh = static_cast<std::uint32_t>(pools_.size());
  last_pool_ = pool_rows_.try_emplace(pool, fresh).first->second;
  if (last_pool_ == fresh) pools_.push_back(pool);
  return last_pool_;
}

std::optional<std::size_t> Store::device_row(DeviceIndex device) const {
  const auto found =
      std::ranges::find(devices_, device, [](const auto& record) { return record->device; });
  if (found == devices_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - devices_.begin());
}

DeviceRecord& Store::device_record(DeviceIndex device) {
  auto place = std::lower_bound(
      devices_.begin(), devices_.end(), device,
      [](const auto& record, DeviceIndex index) { return record->device < index; });
  if (place == devices_.end() || (*place)->device != device) {
    place = devices_.insert(place, std::make_unique<DeviceRecord>());
    (*place)->device = device;
  }
  return **place;
}

void Store::add_events(DeviceIndex device, EventColumns&& events) {
  make_plausible(events);
  EventColumns& stored = device_record(device).events;
  if (stored.empty()) {
    stored = std::move(events);
  } else {
    stored.append(events, 0, events.size());
  }
}

void Store::add_segment(StateEdge edge, const SegmentState& segment,
                        std::span<const BlockState> blocks) {
  DeviceRecord& record = device_record(segment.device);
  ListedState& state = edge == StateEdge::start ? record.start_state : record.final_state;
  state.segments.push_back(segment);
  state.segments.back().size_bytes = plausible_size(segment.size_bytes);
  for (BlockState block : blocks) {
    block.size_bytes = plausible_size(block.size_bytes);
    block.requested_bytes = plausible_size(block.requested_bytes);
    state.blocks.push_back(block);
  }
  state.first_block.push_back(static_cast<std::uint32_t>(state.blocks.size()));
}

std::uint32_t Store::add_label_set(std::span<const Label> labels) {
  label_sets_.push_back({labels_.size(), labels.size()});
  labels_.append(labels);
  return static_cast<std::uint32_t>(label_set_count() - 1);
}

void Store::put_label_set(std::uint32_t row, std::span<const Label> labels) {
  label_sets_[row] = {labels_.size(), labels.size()};
  labels_.append(labels);
}

void Store::keep_label_sets(const std::vector<bool>& is_kept) {
  Column<Label> kept;
  for (std::uint32_t row = 0; row < label_sets_.size(); ++row) {
    const std::span<const Label> labels = label_set(row);
    label_sets_[row] = {kept.size(), is_kept[row] ? labels.size() : 0};
    if (is_kept[row]) kept.append(labels);
  }
  labels_ = std::move(kept);
}

void Store::add_module(const ModuleLabel& module) {
  if (module.number < kMaxModules) {
    if (module_rows_.size() <= module.number) module_rows_.resize(module.number + 1, kNoModule);
    module_rows_[module.number] = static_cast<std::uint32_t>(modules_.size());
    has_named_modules_ = has_named_modules_ || !module.path.is_none();
  }
  modules_.push_back(module);
}

std::string Store::device_name(DeviceIndex device) const {
  if (device == kHostDevice) return "host";
  return origin_.device_type + ":" + std::to_string(device);
}

std::uint64_t Store::event_count() const {
  std::uint64_t count = 0;
  for (const auto& record : devices_) count += record->events.size();
  return count;
}

}  // namespace gpumemprof
