#include "ingest/snapshot_assembly.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "event/alloc_conf.h"
#include "event/rules/plausible.h"

namespace gpumemprof {

using pickle::Run;
using pickle::Tag;
using pickle::Value;

namespace {

std::string describe_type(Value value) {
  switch (value.tag()) {
    case Tag::absent:
      return "it holds no value";
    case Tag::dict:
      return "its dict has neither segments nor device_traces";
    case Tag::list:
    case Tag::stack:
      return "its list does not hold segments";
    case Tag::tuple:
    case Tag::int_pair:
      return "it holds a tuple";
    case Tag::text:
      return "it holds a text";
    default:
      return "it holds a single value";
  }
}

// "PYTORCH_CUDA_ALLOC_CONF" → "cuda"; the generic PYTORCH_ALLOC_CONF names no device type.
std::optional<std::string> device_type_of(std::string_view key) {
  constexpr std::string_view kPrefix = "PYTORCH_";
  constexpr std::string_view kSuffix = "_ALLOC_CONF";
  if (!key.starts_with(kPrefix) || !key.ends_with(kSuffix)) return std::nullopt;
  if (key.size() <= kPrefix.size() + kSuffix.size()) return std::nullopt;
  std::string type(key.substr(kPrefix.size(), key.size() - kPrefix.size() - kSuffix.size()));
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return type == "hip" ? "cuda" : type;
}

}  // namespace

std::optional<std::string> SnapshotAssembly::deliver(Value root,
                                                     const std::optional<pickle::Damage>& damage) {
  origin_.kind = "torch_snapshot";
  if (damage) origin_.cut = CutPoint{damage->byte_offset, damage->reason};
  const pickle::RecordList* bare = heap_.records_of(root);
  const bool is_bare = heap_.is_empty_list(root) || (bare != nullptr && bare->kind == Tag::segment);
  const Value segments = is_bare ? root : item(root, "segments");
  const Value device_traces = item(root, "device_traces");
  origin_.has_segments = segments.is(Tag::list);
  origin_.has_traces = device_traces.is(Tag::list);
  const bool has_content = !records_.segments().empty() || !records_.events().empty();
  if (!origin_.has_segments && !origin_.has_traces) {
    return damage ? damage->reason + " before any segment or event" : describe_type(root);
  }
  if (damage && !has_content) return damage->reason + " before any segment or event";
  // A truncated list says nothing about the state at the end; a trace that follows it proves it
  // complete.
  if (damage && !origin_.has_traces) origin_.has_segments = false;
  deliver_settings(item(root, "allocator_settings"));
  deliver_segments(segments, false);
  deliver_segments(item(root, "host_segments"), true);
  deliver_traces(device_traces, item(root, "host_traces"));
  deliver_annotations(item(root, "external_annotations"));
  sink_.set_settings(settings_);
  sink_.set_origin(origin_);
  return std::nullopt;
}

Value SnapshotAssembly::item(Value dict, std::string_view key) const {
  const pickle::DictItems* items = heap_.items_of(dict);
  if (items == nullptr) return {};
  for (const auto& [name, value] : *items) {
    if (name.is(Tag::text) && sink_.text(StringId(name.row())) == key) return heap_.resolve(value);
  }
  return {};
}

void SnapshotAssembly::for_each_record(Value list, Tag kind,
                                       const std::function<void(std::uint32_t)>& visit) const {
  if (const pickle::RecordList* records = heap_.records_of(list);
      records != nullptr && records->kind == kind) {
    for (const Run& run : records->runs) {
      for (std::uint32_t row = run.first; row < run.first + run.count; ++row) visit(row);
    }
  } else if (const std::vector<Value>* values = heap_.values_of(list); values != nullptr) {
    for (const Value value : *values) {
      if (value.is(kind)) visit(value.row());
    }
  }
}

// A list that a file refers to from many places would be delivered that many times: that is how a
// small file becomes a huge store.
bool SnapshotAssembly::is_met_first(Value list) {
  return list.is(Tag::list) && delivered_lists_.insert(list.row()).second;
}

void SnapshotAssembly::collect_trace(DeviceIndex device, Value events, std::vector<Trace>& traces) {
  pickle::RecordList list{Tag::event, {}};
  if (!is_met_first(events)) events = Value();
  if (const pickle::RecordList* records = heap_.records_of(events);
      records != nullptr && records->kind == Tag::event) {
    list.runs = records->runs;
  } else {
    for_each_record(events, Tag::event, [&](std::uint32_t row) { list.append(row); });
  }
  traces.push_back({device, std::move(list.runs)});
}

void SnapshotAssembly::deliver_traces(Value device_traces, Value host_traces) {
  std::vector<Trace> traces;
  if (const std::vector<Value>* devices = heap_.values_of(device_traces); devices != nullptr) {
    for (const Value events : *devices) {
      if (traces.size() > static_cast<std::size_t>(kLastDevice)) break;
      collect_trace(static_cast<DeviceIndex>(traces.size()), events, traces);
    }
  }
  if (const std::vector<Value>* lists = heap_.values_of(host_traces); lists != nullptr) {
    for (const Value events : *lists) collect_trace(kHostDevice, events, traces);
  } else if (heap_.records_of(host_traces) != nullptr) {
    collect_trace(kHostDevice, host_traces, traces);
  }
  std::erase_if(traces, [](const Trace& trace) { return trace.runs.empty(); });
  EventColumns& events = records_.events();
  const bool is_whole =
      traces.size() == 1 && traces[0].runs.size() == 1 && traces[0].runs[0].count == events.size();
  if (is_whole) {
    events.shrink_to_fit();
    sink_.add_events(traces[0].device, std::move(events));
    return;
  }
  for (const Trace& trace : traces) {
    EventColumns part;
    for (const Run& run : trace.runs) part.append(events, run.first, run.count);
    part.shrink_to_fit();
    sink_.add_events(trace.device, std::move(part));
  }
}

void SnapshotAssembly::deliver_segments(Value segments, bool is_host) {
  for_each_record(segments, Tag::segment, [&](std::uint32_t row) {
    const SegmentRow& record = records_.segments()[row];
    SegmentState segment = record.state;
    if (is_host) segment.device = kHostDevice;
    deliver_segment(segment, record.blocks);
  });
}

void SnapshotAssembly::deliver_segment(SegmentState segment, Value list) {
  std::vector<BlockState> blocks;
  std::uint64_t next_address = segment.address;
  for_each_record(is_met_first(list) ? list : Value(), Tag::block, [&](std::uint32_t row) {
    BlockState block = records_.blocks()[row];
    if (block.address == kUnknownBytes) block.address = next_address;
    next_address = block.address + block.size_bytes;
    blocks.push_back(block);
  });
  sink_.add_segment(StateEdge::end, segment, blocks);
}

void SnapshotAssembly::deliver_annotations(Value annotations) {
  const std::vector<Value>* values = heap_.values_of(annotations);
  if (values == nullptr) return;
  for (const Value value : *values) {
    Annotation annotation;
    const Value name = item(value, "name");
    const Value stage = item(value, "stage");

    if (!name.is(Tag::text) || !stage.is(Tag::text)) continue;
    annotation.name = StringId(name.row());
    annotation.stage = sink_.text(StringId(stage.row())) == "END" ? Annotation::Stage::end
                                                                  : Annotation::Stage::start;
    const auto device =
        static_cast<std::int64_t>(records_.number(item(value, "device")).value_or(0));
    annotation.device =
        static_cast<DeviceIndex>(std::clamp<std::int64_t>(device, kHostDevice, kLastDevice));
    annotation.time_ns = plausible_time(records_.time_ns(item(value, "time_us")));
    sink_.add_annotation(annotation);
  }
}

void SnapshotAssembly::deliver_settings(Value settings) {
  const pickle::DictItems* items = heap_.items_of(settings);
  if (items == nullptr) return;
  for (const auto& [key, value] : *items) {
    if (key.is(Tag::text))
      describe_setting(std::string(sink_.text(StringId(key.row()))), heap_.resolve(value));
  }
  settings_.settle();
}

void SnapshotAssembly::describe_setting(const std::string& key, Value value) {
  const std::optional<std::uint64_t> number = records_.number(value);
  if (key.ends_with("ALLOC_CONF")) {
    if (const auto type = device_type_of(key)) origin_.device_type = *type;
    if (value.is(Tag::text)) apply_sizes_of_conf(sink_.text(StringId(value.row())), settings_);
  } else if (key == "max_split_size" && number && static_cast<std::int64_t>(*number) > 0) {
    settings_.max_split_bytes = *number;
  } else if (key == "garbage_collection_threshold" && value.is(Tag::real)) {
    settings_.garbage_collection_threshold = heap_.real(value);
  } else if (key == "expandable_segments" && number) {
    settings_.expandable_segments = *number != 0;
  } else if (key == "roundup_power2_divisions") {
    take_roundup(value);
    return;
  }
  if (value.is(Tag::boolean)) {
    origin_.settings.emplace_back(key, value.payload() != 0 ? "True" : "False");
  } else if (number) {
    origin_.settings.emplace_back(key, std::to_string(static_cast<std::int64_t>(*number)));
  } else if (value.is(Tag::real)) {
    origin_.settings.emplace_back(key, fmt::format("{}", heap_.real(value)));
  } else if (value.is(Tag::text)) {
    origin_.settings.emplace_back(key, std::string(sink_.text(StringId(value.row()))));
  }
}

// {"1": divisions, "2": …, "32768": …}, the keys being powers of two in megabytes.
void SnapshotAssembly::take_roundup(Value divisions) {
  const pickle::DictItems* items = heap_.items_of(divisions);
  if (items == nullptr) return;
  for (const auto& [key, value] : *items) {
    if (!key.is(Tag::text)) continue;
    const std::string_view text = sink_.text(StringId(key.row()));
    std::uint64_t megabytes = 0;
    std::from_chars(text.data(), text.data() + text.size(), megabytes);
    if (megabytes == 0) continue;
    const auto slot = static_cast<std::size_t>(std::bit_width(megabytes) - 1);
    if (slot < kRoundupSlots)
      settings_.roundup_divisions[slot] = records_.number(value).value_or(0);
  }
}

}  // namespace gpumemprof
