#include "support.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace gpumemprof::test {
namespace {

std::string stack_text(const Store& store, StackId stack) {
  std::string text;
  for (const FrameId id : store.stacks().frames_of(stack)) {
    const Frame& frame = store.frame(id);
    text += std::string(store.text(frame.name)) + "@" + std::string(store.text(frame.file)) + ":" +
            std::to_string(frame.line) + "<";
  }
  return text;
}

std::string pool_text(const Store& store, std::uint32_t pool) {
  if (pool == kNoPool) return "none";
  return std::to_string(store.pool(pool).graph) + "/" + std::to_string(store.pool(pool).user);
}

void describe_state(std::ostream& out, const Store& store, const char* edge,
                    const ListedState& state) {
  for (std::size_t index = 0; index < state.segments.size(); ++index) {
    const SegmentState& segment = state.segments[index];
    out << edge << " segment " << segment.address << " " << segment.size_bytes << " stream "
        << store.stream_handle(segment.stream) << " pool " << pool_text(store, segment.pool) << " "
        << segment.is_small << segment.is_expandable << " " << stack_text(store, segment.stack)
        << "\n";
    for (const BlockState& block : state.blocks_of(index)) {
      out << "  block " << block.address << " " << block.size_bytes << " " << block.requested_bytes
          << " " << static_cast<int>(block.state) << " " << stack_text(store, block.stack) << "\n";
    }
  }
}

void describe_events(std::ostream& out, const Store& store, const EventColumns& events) {
  for (std::size_t row = 0; row < events.size(); ++row) {
    const Event event = events.row(row);
    out << action_name(event.action) << " " << event.address << " " << event.size_bytes
        << " stream " << store.stream_handle(event.stream) << " " << event.time_ns << " "
        << stack_text(store, event.stack) << " " << store.text(event.compile_context) << "|"
        << store.text(event.user_metadata) << "|" << pool_text(store, event.pool) << "|"
        << stack_text(store, event.forward_stack) << "|" << event.module << "\n";
  }
}

void describe_settings(std::ostream& out, const AllocatorSettings& settings) {
  out << "settings " << settings.max_split_bytes << " " << settings.max_non_split_rounding_bytes
      << " " << settings.large_segment_bytes << " " << settings.garbage_collection_threshold << " "
      << settings.expandable_segments;
  for (const std::uint64_t divisions : settings.roundup_divisions) out << " " << divisions;
  out << " 5000000 rounds to " << settings.round_size(5000000) << "\n";
}

StackId add_stack(EventSink& sink, std::initializer_list<const char*> outermost_first) {
  StackId stack;
  std::uint32_t line = 10;
  for (const char* name : outermost_first) {
    const Frame frame{sink.add_string(name), sink.add_string("train.py"), line++};
    stack = sink.add_stack(stack, sink.add_frame(frame));
  }
  return stack;
}

void add_first_part(EventSink& sink) {
  const StackId forward = add_stack(sink, {"main", "train", "forward"});
  const StackId backward = add_stack(sink, {"main", "train", "backward"});
  const std::uint32_t stream = sink.add_stream(0);
  const std::uint32_t side_stream = sink.add_stream(0x7f00aa001122);
  const std::uint32_t pool = sink.add_pool({3, 0});
  const std::uint64_t base = 0x7f5500000000;
  const SegmentState segment{0, base, 2 << 20, stream, kNoPool, true, false, forward};
  const BlockState blocks[] = {{base, 512, 100, BlockStateKind::active_allocated, forward},
                               {base + 512, 1024, 1024, BlockStateKind::active_pending_free, {}},
                               {base + 1536, (2 << 20) - 1536, 0, BlockStateKind::inactive, {}}};
  sink.add_segment(StateEdge::start, segment, blocks);
  sink.add_segment(StateEdge::start, {1, base << 1, 20 << 20, side_stream, pool, false, true, {}},
                   {});
  EventColumns events;
  std::int64_t time = 1'700'000'000'000'000'000;
  const auto push = [&](Action action, std::uint64_t address, std::uint64_t size, std::uint32_t row,
                        StackId stack) {
    events.push_back({action, address, size, row, time += 1234567, stack, {}, {}, kNoPool, {}});
  };
  push(Action::segment_alloc, base + 0x200000, 20 << 20, stream, forward);
  push(Action::alloc, base + 0x200000, 3 << 20, stream, forward);
  push(Action::alloc, base + 0x500000, 70000, side_stream, backward);
  push(Action::free_requested, base + 0x200000, 3 << 20, stream, backward);
  push(Action::free_completed, base + 0x200000, 3 << 20, stream, backward);
  push(Action::free_requested, base + 0x500000, 70000, side_stream, {});
  push(Action::alloc, base + 0x200000, 2 << 20, stream, forward);
  push(Action::free_completed, base + 0x500000, 70000, side_stream, {});
  push(Action::free_requested, base, 100, stream, {});
  push(Action::free_completed, base, 100, stream, {});
  sink.add_events(0, std::move(events));
  const std::int64_t lost_ns = 1'700'000'000'005'500'000;
  sink.add_lost_events({0, 4, 17, 4, lost_ns, lost_ns + 5000, 8, 6});
}

void add_labels(EventSink& sink) {
  const StringId weight = sink.add_string("h.3.mlp.c_fc.weight");
  const StringId gradient = sink.add_string("h.3.mlp.c_fc.weight.grad");
  const Label first[] = {{LabelKind::parameter, 0x7f5500000000, weight},
                         {LabelKind::buffer, 0x7f5500000200, {}},
                         {LabelKind::gradient, 16, gradient}};
  const Label second[] = {{LabelKind::optimizer_state, ~std::uint64_t{0}, weight},
                          {LabelKind::input, 0, sink.add_string("input.0")}};
  const std::uint32_t one = sink.add_label_set(first);
  const std::uint32_t other = sink.add_label_set(second);
  const std::uint32_t empty = sink.add_label_set({});
  sink.add_labelling({0, one, 3});
  sink.add_labelling({0, other, 5});
  sink.add_labelling({1, empty, 0});
  sink.add_labelling({0, one, 9});
  sink.add_phase_mark({0, PhaseMark::Kind::optimizer_start, 2, 4});
  sink.add_phase_mark({0, PhaseMark::Kind::optimizer_end, 2, 6});
  sink.add_phase_mark({1, PhaseMark::Kind::step_start, 7, 0});
  sink.add_module(
      {sink.add_string("h.3.mlp"), sink.add_string("MLP"), sink.add_string("net.py"), 8, 12});
  sink.add_module({StringId(), sink.add_string("Net"), sink.add_string("net.py"), 40, 44});
  ModuleLabel unnamed;
  unnamed.class_name = sink.add_string("Linear");
  unnamed.number = kMaxModules - 1;
  sink.add_module(unnamed);
  const StringId file = sink.add_string("net.py");
  sink.add_module({sink.add_string(""), sink.add_string("Net"), file, 40, 44, 0, true});
  sink.add_module({sink.add_string("fc"), unnamed.class_name, file, 1, 2, kMaxModules - 1, false});
}

void describe_labels(std::ostream& out, const Store& store) {
  for (std::uint32_t set = 0; set < store.label_set_count(); ++set) {
    out << "label set " << set << "\n";
    for (const Label& label : store.label_set(set)) {
      out << "  " << static_cast<int>(label.kind) << " " << label.address << " "
          << store.text(label.name) << "\n";
    }
  }
  for (const ModuleLabel& module : store.modules()) {
    out << "module " << store.text(module.path) << " " << store.text(module.class_name) << " "
        << store.text(module.forward_file) << ":" << module.forward_line << "-"
        << module.forward_last_line << " " << module.number << " " << module.is_root << " "
        << module.path.is_none() << "\n";
  }
  for (const auto& record : store.devices()) {
    for (const Labelling& labelling : record->labellings)
      out << "labelling " << labelling.device << " " << labelling.set << " "
          << labelling.before_event << "\n";
    for (const PhaseMark& mark : record->phase_marks)
      out << "phase mark " << mark.device << " " << static_cast<int>(mark.kind) << " "
          << mark.number << " " << mark.before_event << "\n";
  }
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "gpumemprof-trace-XXXXXX").string();
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  path_ = name;
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

Bytes read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

std::unique_ptr<TraceWriter> open_writer(const std::string& path, TraceOptions options,
                                         const Origin& origin) {
  options.existing = FileSink::Existing::replace;
  Result<std::unique_ptr<TraceWriter>> writer = TraceWriter::open(path, origin, {}, options);
  EXPECT_TRUE(writer) << writer.error().sentence();
  return std::move(writer).value();
}

void add_a_bit_of_everything(EventSink& sink, const std::function<void()>& between) {
  Origin origin;
  origin.kind = "gpumemprof";
  origin.has_start = true;
  origin.has_traces = true;
  origin.settings = {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64"}};
  origin.facts = {{"torch", "2.11.0+cu130"}, {"argv", "train.py --größe 3"}, {"pid", "4711"}};
  AllocatorSettings settings;
  settings.max_split_bytes = 64 << 20;
  settings.garbage_collection_threshold = 0.6;
  settings.expandable_segments = true;
  settings.roundup_divisions[2] = 8;
  settings.settle();
  sink.set_origin(origin);
  sink.set_settings(settings);
  add_first_part(sink);
  between();

  const StackId optimizer = add_stack(sink, {"main", "train", "step"});
  EventColumns events;
  for (std::uint8_t action = 0; action < kActionCount; ++action) {
    Event event{static_cast<Action>(action),
                0x7f5500800000ULL + action * 0x1000ULL,
                1ULL << (action * 4),
                0,
                kUnknownTime,
                optimizer,
                {},
                {},
                kNoPool,
                {}};
    if (action % 2 == 0) event.time_ns = -5 + action;
    if (action % 3 == 0) event.compile_context = sink.add_string("Torch-Compiled Region: 0/1");
    if (action == 9) event.user_metadata = sink.add_string("kv_cache");
    if (action == 3) event.pool = sink.add_pool({0, 9});
    if (action == 0) event.forward_stack = add_stack(sink, {"main", "loss"});
    if (action % 4 == 0) event.module = action == 0 ? 0 : kMaxModules - action;
    events.push_back(event);
  }
  events.push_back({Action::oom, kUnknownBytes, kUnknownBytes, 1, 7, {}, {}, {}, kNoPool, {}});
  sink.add_events(1, std::move(events));
  sink.add_annotation({sink.add_string("gpumemprof.step#1"), Annotation::Stage::start, 0,
                       1'700'000'000'000'000'500});
  sink.add_annotation(
      {sink.add_string("gpumemprof.step#1"), Annotation::Stage::end, 1, kUnknownTime});
  sink.add_sample({0, 12345, std::uint64_t{80} << 30, std::uint64_t{3} << 30, kUnknownBytes});
  sink.add_sample({kHostDevice, -1, 0, kUnknownBytes, 0});
  sink.add_sample({1, 12346, 80, 70, 60, 5, 4, 12, DeviceSample::kNccl});
  add_labels(sink);
  between();

  const BlockState last{0x7f5500000000, 2 << 20, 77, BlockStateKind::active_allocated, optimizer};
  sink.add_segment(StateEdge::end, {0, 0x7f5500000000, 2 << 20, 0, kNoPool, true, false, {}},
                   {&last, 1});
  origin.has_segments = true;
  origin.facts.emplace_back("peak", "3145728");
  sink.set_origin(origin);
}

Bytes a_bit_of_everything() {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("all.gmp"));
  add_a_bit_of_everything(*writer, [&] { EXPECT_TRUE(writer->flush()); });
  EXPECT_TRUE(writer->close("exit 0"));
  return read_bytes(folder.file("all.gmp"));
}

Opened open_bytes(const Bytes& bytes) {
  Opened opened;
  Result<std::unique_ptr<TraceReader>> reader =
      TraceReader::from_bytes(std::as_bytes(std::span(bytes)), "test.gmp");
  if (!reader) {
    opened.refusal = reader.error().sentence();
    return opened;
  }
  opened.store = std::make_unique<Store>();
  const Status delivered = reader.value()->deliver(*opened.store);
  EXPECT_TRUE(delivered) << delivered.error().sentence();
  return opened;
}

std::string describe(const Store& store) {
  std::ostringstream out;
  const Origin& origin = store.origin();
  out << origin.kind << " " << origin.device_type << " " << origin.has_segments << origin.has_start
      << origin.has_traces << "\n";
  for (const auto& [key, value] : origin.settings) out << "setting " << key << "=" << value << "\n";
  for (const auto& [key, value] : origin.facts) {
    if (key != kEndedFact) out << "fact " << key << "=" << value << "\n";
  }
  describe_settings(out, store.settings());
  for (const auto& record : store.devices()) {
    out << "device " << record->device << "\n";
    describe_state(out, store, "start", record->start_state);
    describe_state(out, store, "end", record->final_state);
    for (const LostEvents& lost : record->lost_events)
      out << "lost " << lost.before_event << "-" << lost.end_event << " " << lost.count << " "
          << lost.allocations << " " << lost.frees << " " << lost.first_time_ns << "-"
          << lost.last_time_ns << "\n";
    describe_events(out, store, record->events);
  }
  for (const Annotation& annotation : store.annotations()) {
    out << "annotation " << store.text(annotation.name) << " " << static_cast<int>(annotation.stage)
        << " " << annotation.device << " " << annotation.time_ns << "\n";
  }
  for (const DeviceSample& sample : store.samples()) {
    out << "sample " << sample.device << " " << sample.time_ns << " " << sample.total_bytes << " "
        << sample.used_bytes << " " << sample.process_bytes << " " << sample.other_processes_bytes
        << " " << sample.firmware_bytes << " " << sample.before_event << " "
        << static_cast<int>(sample.libraries) << "\n";
  }
  describe_labels(out, store);
  return out.str();
}

std::string describe_events(const Store& store) {
  std::ostringstream out;
  for (const auto& record : store.devices()) describe_events(out, store, record->events);
  return out.str();
}

std::string ended(const Store& store) {
  for (const auto& [key, value] : store.origin().facts) {
    if (key == kEndedFact) return value;
  }
  return "";
}

}  // namespace gpumemprof::test
