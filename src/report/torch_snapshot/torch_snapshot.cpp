#include "report/torch_snapshot/torch_snapshot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ranges>

#include "event/alloc_conf.h"
#include "report/torch_snapshot/pickle_writer.h"
#include "report/torch_snapshot/state_at_end.h"

namespace gpumemprof {
namespace {

constexpr PickleWriter::Memo kNotYet = ~PickleWriter::Memo{0};

std::string_view state_name(BlockStateKind state) {
  switch (state) {
    case BlockStateKind::active_allocated:
      return "active_allocated";
    case BlockStateKind::active_pending_free:
      return "active_pending_free";
    case BlockStateKind::inactive:
      break;
  }
  return "inactive";
}

// The variable that names the device type, which a snapshot states nowhere else.
std::string conf_name(std::string type) {
  std::ranges::transform(type, type.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return "PYTORCH_" + type + "_ALLOC_CONF";
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Store& store, std::unique_ptr<FileSink> file)
      : store_(store),
        out_(std::move(file)),
        stack_memos_(store.stacks().size(), kNotYet),
        frame_memos_(store.frames().size(), kNotYet),
        text_memos_(store.strings().size(), kNotYet) {}

  Status run() {
    out_.begin_dict();
    const bool has_host =
        std::ranges::any_of(store_.devices(), [](const auto& record) { return is_host(*record); });
    key("segments");
    put_segments(false);
    key("device_traces");
    put_device_traces();
    if (has_host) {
      key("host_segments");
      put_segments(true);
      key("host_traces");
      put_host_traces();
    }
    key("allocator_settings");
    put_settings();
    key("external_annotations");
    put_annotations();
    out_.end_dict();
    return out_.finish();
  }

 private:
  static bool is_host(const DeviceRecord& record) { return record.device == kHostDevice; }

  void key(std::string_view name) { out_.common_text(name); }
  void field(std::string_view name, std::uint64_t value) {
    key(name);
    out_.integer(value);
  }
  void put_time(std::int64_t time_ns) {
    if (time_ns == kUnknownTime) return;
    key("time_us");
    out_.integer(time_ns / 1000);
  }

  void put_text(StringId id) {
    if (id.is_none()) return out_.common_text("");
    PickleWriter::Memo& memo = text_memos_[id.index];
    if (memo != kNotYet) return out_.get(memo);
    out_.text(store_.text(id));
    memo = out_.memoize();
  }

  void put_pool(std::uint32_t pool) {
    const PoolId id = store_.pool(pool);
    out_.integer(id.graph);
    out_.integer(id.user);
    out_.end_pair();
  }

  void put_frame(FrameId id) {
    PickleWriter::Memo& memo = frame_memos_[id.index];
    if (memo != kNotYet) return out_.get(memo);
    const Frame& frame = store_.frame(id);
    out_.begin_dict();
    key("name");
    put_text(frame.name);
    key("filename");
    put_text(frame.file);
    field("line", frame.line);
    out_.end_dict();
    memo = out_.memoize();
  }

  void put_frames(StackId stack) {
    if (stack.is_none()) return out_.empty_list();
    PickleWriter::Memo& memo = stack_memos_[stack.index];
    if (memo != kNotYet) return out_.get(memo);
    out_.begin_list();
    for (; !stack.is_none(); stack = store_.stacks().caller(stack)) {
      put_frame(store_.stacks().frame(stack));
      out_.end_item();
    }
    out_.end_list();
    memo = out_.memoize();
  }

  // As Python's traceback module formats them, outermost first: torch keeps forward stacks this
  // way.
  void put_forward_frames(StackId stack) {
    const std::vector<FrameId> innermost_first = store_.stacks().frames_of(stack);
    out_.begin_list();
    for (const FrameId id : std::views::reverse(innermost_first)) {
      const Frame& frame = store_.frame(id);
      out_.text(fmt::format("  File \"{}\", line {}, in {}\n", store_.text(frame.file), frame.line,
                            store_.text(frame.name)));
      out_.end_item();
    }
    out_.end_list();
  }

  void put_segments(bool of_host) {
    out_.begin_list();
    for (const auto& record : store_.devices()) {
      if (is_host(*record) != of_host) continue;
      const ListedState state = state_at_end(*record, store_.origin().has_segments);
      for (std::size_t index = 0; index < state.segments.size(); ++index) {
        put_segment(state.segments[index], state.blocks_of(index));
        out_.end_item();
      }
    }
    out_.end_list();
  }

  void put_segment(const SegmentState& segment, std::span<const BlockState> blocks) {
    std::uint64_t allocated_bytes = 0;
    std::uint64_t active_bytes = 0;
    std::uint64_t requested_bytes = 0;
    for (const BlockState& block : blocks) {
      if (block.state == BlockStateKind::inactive) continue;
      active_bytes += block.size_bytes;
      requested_bytes += block.requested_bytes;
      if (block.state == BlockStateKind::active_allocated) allocated_bytes += block.size_bytes;
    }
    out_.begin_dict();
    key("device");
    out_.integer(std::int64_t{segment.device});
    field("address", segment.address);
    field("total_size", segment.size_bytes);
    field("allocated_size", allocated_bytes);
    field("active_size", active_bytes);
    field("requested_size", requested_bytes);
    field("stream", store_.stream_handle(segment.stream));
    key("segment_type");
    out_.common_text(segment.is_small ? "small" : "large");
    key("segment_pool_id");
    put_pool(segment.pool);
    key("is_expandable");
    out_.boolean(segment.is_expandable);
    key("frames");
    put_frames(segment.stack);
    key("blocks");
    out_.begin_list();
    for (const BlockState& block : blocks) {
      put_block(block);
      out_.end_item();
    }
    out_.end_list();
    out_.end_dict();
  }

  void put_block(const BlockState& block) {
    out_.begin_dict();
    field("address", block.address);
    field("size", block.size_bytes);
    field("requested_size", block.requested_bytes);
    key("state");
    out_.common_text(state_name(block.state));
    key("frames");
    put_frames(block.stack);
    out_.end_dict();
  }

  // One list for every device number up to the largest, as in torch.
  void put_device_traces() {
    out_.begin_list();
    DeviceIndex next = 0;
    for (const auto& record : store_.devices()) {
      if (is_host(*record)) continue;
      for (; next < record->device; ++next) {
        out_.empty_list();
        out_.end_item();
      }
      put_trace(*record);
      out_.end_item();
      ++next;
    }
    out_.end_list();
  }

  void put_host_traces() {
    out_.begin_list();
    for (const auto& record : store_.devices()) {
      if (!is_host(*record)) continue;
      put_trace(*record);
      out_.end_item();
    }
    out_.end_list();
  }

  void put_trace(const DeviceRecord& record) {
    out_.begin_list();
    for (std::size_t row = 0; row < record.events.size(); ++row) {
      put_event(record.events, record.events.row(row));
      out_.end_item();
    }
    out_.end_list();
  }

  void put_event(const EventColumns& events, const Event& event) {
    out_.begin_dict();
    key("action");
    out_.common_text(action_name(event.action));
    if (event.action != Action::oom) {
      field("addr", event.address);
    } else if (event.address != kUnknownBytes) {
      field("device_free", event.address);
    }
    field("size", event.size_bytes);
    field("stream", store_.stream_handle(event.stream));
    put_time(event.time_ns);
    if (!events.compile_context.empty()) {
      key("compile_context");
      event.compile_context.is_none() ? out_.common_text("N/A") : put_text(event.compile_context);
    }
    if (!events.user_metadata.empty()) {
      key("user_metadata");
      put_text(event.user_metadata);
    }
    if (event.pool != kNoPool) {
      key("pool_id");
      put_pool(event.pool);
    }
    if (!event.stack.is_none()) {
      key("frames");
      put_frames(event.stack);
    }
    if (!event.forward_stack.is_none()) {
      key("forward_frames");
      put_forward_frames(event.forward_stack);
    }
    out_.end_dict();
  }

  // The settings as the recording states them; those that decide placement as they were in effect.
  void put_settings() {
    const AllocatorSettings& settings = store_.settings();
    bool has_conf = false;
    out_.begin_dict();
    for (const auto& [name, value] : store_.origin().settings) {
      if (name == "max_split_size" || name == "garbage_collection_threshold" ||
          name == "expandable_segments")
        continue;
      const bool is_conf = name.ends_with("ALLOC_CONF");
      has_conf |= is_conf;
      out_.text(name);
      is_conf ? out_.text(value) : put_setting(value);
    }
    if (!has_conf) {
      out_.text(conf_name(store_.origin().device_type));
      AllocConf conf;
      conf.settings = settings;
      out_.text(to_string(conf));
    }
    key("max_split_size");
    out_.integer(
        static_cast<std::int64_t>(settings.max_split_bytes));  // no limit is −1, as in torch
    key("garbage_collection_threshold");
    out_.real(settings.garbage_collection_threshold);
    key("expandable_segments");
    out_.boolean(settings.expandable_segments);
    key("roundup_power2_divisions");
    out_.begin_dict();
    for (std::size_t slot = 0; slot < kRoundupSlots; ++slot) {
      out_.text(std::to_string(1U << slot));
      out_.integer(settings.roundup_divisions[slot]);
    }
    out_.end_dict();
    out_.end_dict();
  }

  void put_setting(const std::string& value) {
    if (value == "True" || value == "False") return out_.boolean(value == "True");
    std::int64_t number = 0;
    const char* const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, number);
    if (error == std::errc() && rest == end) return out_.integer(number);
    out_.text(value);
  }

  void put_annotations() {
    out_.begin_list();
    for (const Annotation& annotation : store_.annotations()) {
      out_.begin_dict();
      key("name");
      put_text(annotation.name);
      key("stage");
      out_.common_text(annotation.stage == Annotation::Stage::start ? "START" : "END");
      key("device");
      out_.integer(std::int64_t{annotation.device});
      put_time(annotation.time_ns);
      out_.end_dict();
      out_.end_item();
    }
    out_.end_list();
  }

  const Store& store_;
  PickleWriter out_;
  std::vector<PickleWriter::Memo> stack_memos_;
  std::vector<PickleWriter::Memo> frame_memos_;
  std::vector<PickleWriter::Memo> text_memos_;
};

}  // namespace

Status write_torch_snapshot(const Store& store, const std::string& path,
                            FileSink::Existing existing) {
  Result<std::unique_ptr<FileSink>> file =
      FileSink::create(path, existing, FileSink::Appears::when_closed);
  if (!file) return file.error();
  return SnapshotWriter(store, std::move(file).value()).run();
}

}  // namespace gpumemprof
