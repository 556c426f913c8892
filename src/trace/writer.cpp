#include "trace/writer.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>

#include "trace/block.h"
#include "trace/chapters/chapter_block.h"
#include "trace/content/about.h"
#include "trace/content/annotations.h"
#include "trace/content/definitions.h"
#include "trace/content/ending.h"
#include "trace/content/event_encoder.h"
#include "trace/content/labels.h"
#include "trace/content/references.h"
#include "trace/content/state.h"
#include "trace/native/native_modules.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kAnnotationsPerBlock = std::size_t{1} << 14;
// For the end block of a file on a full disk.
constexpr std::uint64_t kReservedBytes = std::uint64_t{16} << 10;
constexpr int kMostNames = 100'000;

}  // namespace

Result<std::unique_ptr<TraceWriter>> TraceWriter::open(const std::string& path,
                                                       const Origin& origin,
                                                       const AllocatorSettings& settings,
                                                       const TraceOptions& options) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter(path, origin, settings, options));
  if (!options.waits_for_events) {
    if (Status made = writer->make_file(); !made) return made.error();
  }
  trace::append_file_header(*writer->packed_);
  const Status started = writer->flush();
  if (!started) return started.error();
  return writer;
}

TraceWriter::TraceWriter(std::string path, const Origin& origin, const AllocatorSettings& settings,
                         const TraceOptions& options)
    : path_(std::move(path)),
      options_(options),
      origin_(origin),
      settings_(settings),
      definitions_(std::make_unique<trace::DefinitionTable>()),
      encoder_(std::make_unique<trace::EventEncoder>()),
      packer_(std::make_unique<trace::BlockPacker>(options.compression_level)),
      states_{std::make_unique<trace::StateEncoder>(StateEdge::start),
              std::make_unique<trace::StateEncoder>(StateEdge::end)},
      annotations_(std::make_unique<trace::Annotations>()),
      labels_(std::make_unique<trace::LabelEncoder>()),
      native_modules_(std::make_unique<trace::NativeModuleTable>()),
      content_(std::make_unique<trace::OutBytes>()),
      packed_(std::make_unique<trace::OutBytes>()) {
  options_.events_per_block =
      std::clamp<std::size_t>(options.events_per_block, 1, trace::kMaxBlockEvents);
}

TraceWriter::~TraceWriter() {
  if (!is_closed_ && file_ && file_->is_ours()) (void)flush();
}

StringId TraceWriter::add_string(std::string_view text) { return definitions_->add_string(text); }
std::string_view TraceWriter::text(StringId id) const { return definitions_->text(id); }
FrameId TraceWriter::add_frame(const Frame& frame) { return definitions_->add_frame(frame); }
StackId TraceWriter::add_stack(StackId caller, FrameId frame) {
  return definitions_->add_stack(caller, frame);
}
void TraceWriter::add_native_module(const NativeModule& module) { native_modules_->add(module); }
std::uint32_t TraceWriter::add_stream(std::uint64_t handle) {
  return definitions_->add_stream(handle);
}
std::uint32_t TraceWriter::add_pool(PoolId pool) { return definitions_->add_pool(pool); }

TraceWriter::DeviceQueue& TraceWriter::queue_of(DeviceIndex device) {
  for (const auto& queue : queues_) {
    if (queue->device == device) return *queue;
  }
  queues_.push_back(std::make_unique<DeviceQueue>());
  queues_.back()->device = device;
  return *queues_.back();
}

void TraceWriter::add_events(DeviceIndex device, EventColumns&& events) {
  const EventColumns taken = std::move(events);
  append_events(device, taken);
}

void TraceWriter::append_events(DeviceIndex device, const EventColumns& events) {
  if (failure_ || is_closed_) return;
  guarded([&] { take_events(device, events); });
}

void TraceWriter::take_events(DeviceIndex device, const EventColumns& events) {
  DeviceQueue& queue = queue_of(device);
  const std::size_t per_block = options_.events_per_block;
  std::size_t done = 0;
  while (done < events.size()) {
    const std::size_t left = events.size() - done;
    if (queue.events.empty() && left >= per_block) {
      write_events(device, events, done, per_block);  // no need to copy them first
      done += per_block;
      continue;
    }
    const std::size_t count = std::min(left, per_block - queue.events.size());
    queue.events.append(events, done, count);
    done += count;
    if (queue.events.size() < per_block) continue;
    write_events(device, queue.events, 0, per_block);
    queue.events.clear();
  }
}

void TraceWriter::write_events(DeviceIndex device, const EventColumns& events, std::size_t first,
                               std::size_t count) {
  if (failure_ || count == 0) return;
  if (definitions_->stream_count() == 0) definitions_->add_stream(0);
  if (!trace::refers_to_known(*definitions_, events, first, count)) {
    return fail(unknown_reference());
  }
  has_events_ = true;
  pack_context();
  packer_->pack(trace::BlockKind::events, encoder_->encode(device, events, first, count), *packed_);
  send();
  if (failure_) return;
  EventCounts& written = queue_of(device).written;
  for (const Action action : events.action.span().subspan(first, count)) written.add(action);
}

EventCounts TraceWriter::written(DeviceIndex device) const {
  for (const auto& queue : queues_) {
    if (queue->device == device) return queue->written;
  }
  return {};
}

std::uint64_t TraceWriter::event_count() const {
  std::uint64_t count = 0;
  for (const auto& queue : queues_) {
    count += queue->written.total();
    if (!failure_) count += queue->events.size();
  }
  return count;
}

Error TraceWriter::unknown_reference() const {
  return {ErrorCode::bug,
          "something to be written refers to a stack, stream, pool or text that was never added",
          path(), ""};
}

void TraceWriter::add_segment(StateEdge edge, const SegmentState& segment,
                              std::span<const BlockState> blocks) {
  if (failure_ || is_closed_) return;
  guarded([&] { take_segment(edge, segment, blocks); });
}

void TraceWriter::take_segment(StateEdge edge, const SegmentState& segment,
                               std::span<const BlockState> blocks) {
  trace::StateEncoder& state = *states_[static_cast<std::size_t>(edge)];
  if (definitions_->stream_count() == 0) definitions_->add_stream(0);
  if (!trace::refers_to_known(*definitions_, segment, blocks)) return fail(unknown_reference());
  std::size_t done = 0;
  do {
    done += state.add(segment, blocks, done);
    if (state.is_full() && !failure_) {
      pack_context();
      pack_state(state, false);
      send();
    }
  } while (done < blocks.size());
}

void TraceWriter::add_annotation(const Annotation& annotation) {
  if (failure_ || is_closed_) return;
  if (!annotation.name.is_none() && annotation.name.index >= definitions_->string_count()) {
    return fail(unknown_reference());
  }
  annotations_->annotations.push_back(annotation);
  if (annotations_->size() >= kAnnotationsPerBlock) (void)flush();
}

void TraceWriter::add_lost_events(const LostEvents& lost) {
  if (failure_ || is_closed_) return;
  annotations_->lost_events.push_back(lost);
  if (annotations_->size() >= kAnnotationsPerBlock) (void)flush();
}

void TraceWriter::add_sample(const DeviceSample& sample) {
  if (failure_ || is_closed_) return;
  annotations_->samples.push_back(sample);
  if (annotations_->size() >= kAnnotationsPerBlock) (void)flush();
}

std::uint32_t TraceWriter::add_label_set(std::span<const Label> labels) {
  const std::uint32_t row = labels_->set_count();
  add_to_labels([&] {
    const auto is_known = [&](const Label& label) {
      return label.name.is_none() || label.name.index < definitions_->string_count();
    };
    if (labels.size() > kMaxLabelsPerSet || !std::all_of(labels.begin(), labels.end(), is_known)) {
      return fail(unknown_reference());
    }
    labels_->add_set(labels);
  });
  return row;
}

void TraceWriter::add_labelling(const Labelling& labelling) {
  add_to_labels([&] {
    if (labelling.set >= labels_->set_count()) return fail(unknown_reference());
    labels_->add(labelling);
  });
}

void TraceWriter::add_phase_mark(const PhaseMark& mark) {
  add_to_labels([&] { labels_->add(mark); });
}

void TraceWriter::add_module(const ModuleLabel& module) {
  add_to_labels([&] {
    for (const StringId id : {module.path, module.class_name, module.forward_file}) {
      if (!id.is_none() && id.index >= definitions_->string_count()) {
        return fail(unknown_reference());
      }
    }
    labels_->add(module);
  });
}

template <typename Work>
void TraceWriter::add_to_labels(Work&& work) {
  if (failure_ || is_closed_) return;
  guarded(work);
  if (labels_->is_full()) (void)flush();
}

void TraceWriter::set_settings(const AllocatorSettings& settings) {
  settings_ = settings;
  has_new_about_ = true;
}

void TraceWriter::set_origin(const Origin& origin) {
  origin_ = origin;
  has_new_about_ = true;
}

void TraceWriter::add_chapter_start(const ChapterStart& start) {
  if (failure_ || is_closed_) return;
  guarded([&] {
    if (!trace::refers_to_known(*definitions_, start)) return fail(unknown_reference());
    chapter_ = std::make_unique<ChapterStart>(start);
  });
}

void TraceWriter::pack_context() {
  if (has_new_about_) {
    content_->clear();
    trace::encode_about(*content_, origin_, settings_);
    packer_->pack(trace::BlockKind::about, content_->span(), *packed_);
    has_new_about_ = false;
  }
  for (content_->clear(); native_modules_->encode_next(*content_); content_->clear()) {
    packer_->pack(trace::BlockKind::native_modules, content_->span(), *packed_);
  }
  for (content_->clear(); definitions_->encode_next(*content_); content_->clear()) {
    packer_->pack(trace::BlockKind::definitions, content_->span(), *packed_);
  }
  trace::StateEncoder& start = *states_[static_cast<std::size_t>(StateEdge::start)];
  if (start.is_due() && !start.is_full()) pack_state(start, true);
  if (chapter_ == nullptr) return;
  std::size_t live = 0;
  do {
    content_->clear();
    live = trace::encode_chapter(*content_, *chapter_, live);
    packer_->pack(trace::BlockKind::chapter, content_->span(), *packed_);
  } while (live < chapter_->live.size());
  chapter_.reset();
}

void TraceWriter::pack_state(trace::StateEncoder& state, bool is_whole) {
  content_->clear();
  state.encode(*content_, is_whole);
  packer_->pack(trace::BlockKind::state, content_->span(), *packed_);
}

void TraceWriter::pack_pending() {
  pack_context();
  trace::StateEncoder& end = *states_[static_cast<std::size_t>(StateEdge::end)];
  if (end.is_due()) pack_state(end, true);
  if (labels_->is_due()) {
    content_->clear();
    labels_->encode(*content_);
    packer_->pack(trace::BlockKind::labels, content_->span(), *packed_);
  }
  if (annotations_->size() == 0) return;
  content_->clear();
  trace::encode_annotations(*content_, *annotations_);
  packer_->pack(trace::BlockKind::annotations, content_->span(), *packed_);
  annotations_->clear();
}

Status TraceWriter::flush() {
  if (failure_ || is_closed_) return status();
  guarded([&] {
    for (const auto& queue : queues_) {
      write_events(queue->device, queue->events, 0, queue->events.size());
      queue->events.clear();
    }
    if (failure_) return;
    pack_pending();
    send();
  });
  return status();
}

Status TraceWriter::close(std::string_view reason) {
  Ending ending;
  ending.is_closed = true;
  ending.reason = reason;
  return close(ending);
}

Status TraceWriter::close(const Ending& ending) {
  if (is_closed_) return status();
  (void)flush();
  guarded([&] { write_end(ending); });
  is_closed_ = true;
  const Status closed = file_ ? file_->close() : Status(Done{});
  if (!closed) fail(closed.error());
  return status();
}

void TraceWriter::write_end(const Ending& ending) {
  // There was nothing to record, or not even the beginning could be written.
  if (!file_ || file_->size_bytes() == 0) return;
  Ending mine = ending;
  if (failure_) mine.problem = failure_->message;
  packed_->clear();
  packer_->set_next_number(sent_blocks_);
  content_->clear();
  trace::encode_end(*content_, mine, event_count());
  packer_->pack(trace::BlockKind::end, content_->span(), *packed_);
  const Status written = file_->write_last(std::as_bytes(packed_->span()));
  if (!written) fail(written.error());
}

// If memory runs out, a block may be half packed: it never reaches the file.
template <typename Work>
void TraceWriter::guarded(Work&& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    packed_->clear();
    fail({ErrorCode::environment, "out of memory while writing", path(),
          "record a shorter part of the program"});
  }
}

Result<std::unique_ptr<FileSink>> TraceWriter::create_file() const {
  if (options_.makes_folder) {
    std::error_code problem;
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    const bool is_new = std::filesystem::create_directory(folder, problem);
    if (options_.takes_free_name && !is_new && !problem)
      return Error{ErrorCode::usage, "the recording already exists", folder.string(), ""};
    // Otherwise the file cannot be created either, which says why.
  }
  return FileSink::create(path_, options_.existing, options_.appears);
}

std::string TraceWriter::next_name(const std::filesystem::path& first, int number) const {
  const std::filesystem::path own = options_.makes_folder ? first.parent_path() : first;
  const bool has_second = !options_.second_name.empty();
  std::filesystem::path name = has_second ? std::filesystem::path(options_.second_name) : own;
  if (!has_second || number > 1) {
    const std::string numbered = "." + std::to_string(has_second ? number : number + 1);
    name.replace_filename(name.stem().string() + numbered + name.extension().string());
  }
  return (options_.makes_folder ? name / first.filename() : name).string();
}

Status TraceWriter::make_file() {
  const std::filesystem::path first = path_;
  Result<std::unique_ptr<FileSink>> file = create_file();
  for (int number = 1; options_.takes_free_name && number <= kMostNames; ++number) {
    if (file || file.error().code != ErrorCode::usage) break;
    path_ = next_name(first, number);
    file = create_file();
  }
  if (!file) return file.error();
  file_ = std::move(file).value();
  file_->reserve(kReservedBytes);
  return Done{};
}

void TraceWriter::send() {
  if (packed_->size() == 0) return;
  if (!file_) {
    if (!has_events_) return;
    if (Status made = make_file(); !made) return fail(made.error());
  }
  const Status written = file_->write(std::as_bytes(packed_->span()));
  packed_->clear();
  if (!written) return fail(written.error());
  sent_blocks_ = packer_->next_number();
}

void TraceWriter::fail(Error error) {
  if (!failure_) failure_ = std::move(error);
  if (file_) file_->abandon();
}

Status TraceWriter::status() const {
  if (failure_) return *failure_;
  return Done{};
}

}  // namespace gpumemprof
