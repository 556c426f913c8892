#include "trace/stretch_reader.h"

#include <algorithm>
#include <limits>

#include "event/sinks/silent_sink.h"
#include "trace/content/annotations.h"
#include "trace/content/event_decoder.h"
#include "trace/delivery.h"

namespace gpumemprof {
namespace {

Error changed(const std::string& path, std::uint64_t byte_offset, const std::string& reason) {
  return {ErrorCode::bad_input, "the recording is not what its index was made of (" + reason + ")",
          path + ", byte " + std::to_string(byte_offset),
          "delete " + path + ".index: it is made again"};
}

// Of a block of labels, one set.
class SetFinder final : public SilentSink {
 public:
  SetFinder(EventSink& sink, std::uint64_t wanted) : sink_(sink), wanted_(wanted) {}

  std::uint32_t add_label_set(std::span<const Label> labels) override {
    if (next_ == wanted_) found_ = sink_.add_label_set(labels);
    return next_++;
  }
  [[nodiscard]] const std::optional<std::uint32_t>& found() const { return found_; }

 private:
  EventSink& sink_;
  std::uint64_t wanted_;
  std::uint32_t next_ = 0;
  std::optional<std::uint32_t> found_;
};

}  // namespace

StretchReader::StretchReader(std::unique_ptr<FileSource> file, std::string path, EventSink& sink,
                             trace::DefinedRows known, const std::vector<LabelBlock>& label_blocks)
    : file_(std::move(file)),
      path_(std::move(path)),
      sink_(sink),
      definitions_(sink, std::move(known)),
      label_blocks_(label_blocks) {}

Result<std::unique_ptr<StretchReader>> StretchReader::open(
    const std::string& path, EventSink& sink, trace::DefinedRows known,
    const std::vector<LabelBlock>& label_blocks) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  if (Status read = trace::read_file_header(*file.value(), path); !read) return read.error();
  return std::unique_ptr<StretchReader>(
      new StretchReader(std::move(file).value(), path, sink, std::move(known), label_blocks));
}

Status StretchReader::deliver(const trace::BlockPlace& from, std::uint64_t end_byte) {
  // From a block that adds none on, all sets are earlier ones.
  const auto next =
      std::ranges::lower_bound(label_blocks_, from.byte_offset, {},
                               [](const LabelBlock& block) { return block.place.byte_offset; });
  labels_.go_on_after(
      next == label_blocks_.end() ? std::numeric_limits<std::uint32_t>::max() : next->first_set,
      [this](std::uint64_t set) { return earlier_set(set); });
  trace::BlockReader blocks(*file_);
  blocks.go_on_at(from);
  std::uint64_t at = from.byte_offset;
  while (at < end_byte) {
    // Sets that came before may have been looked up meanwhile.
    file_->move_to(at);
    trace::Block block;
    if (blocks.next(block) != trace::BlockReader::Outcome::block)
      return changed(path_, at, blocks.damage().empty() ? "it is shorter" : blocks.damage());
    if (!take(block)) return changed(path_, at, "a block refers to something else");
    at = blocks.byte_offset();
  }
  return Done{};
}

bool StretchReader::take(const trace::Block& block) {
  const trace::InBytes content(block.content);
  if (block.kind == trace::BlockKind::events) {
    EventColumns events;
    DeviceIndex device = 0;
    if (!trace::EventDecoder(definitions_).decode(content, device, events)) return false;
    sink_.add_events(device, std::move(events));
  } else if (block.kind == trace::BlockKind::labels) {
    return labels_.decode(content, definitions_, sink_);
  } else if (block.kind == trace::BlockKind::annotations) {
    trace::Annotations said;
    if (!decode_annotations(content, definitions_, said)) return false;
    for (const Annotation& annotation : said.annotations) sink_.add_annotation(annotation);
    for (const LostEvents& lost : said.lost_events) sink_.add_lost_events(lost);
    for (const DeviceSample& sample : said.samples) sink_.add_sample(sample);
  }
  return true;
}

std::optional<std::uint32_t> StretchReader::earlier_set(std::uint64_t set) {
  const auto known = sets_.find(set);
  if (known != sets_.end()) return known->second;
  const auto after = std::ranges::upper_bound(label_blocks_, set, {}, &LabelBlock::first_set);
  if (after == label_blocks_.begin()) return std::nullopt;
  const LabelBlock& holder = *std::prev(after);
  file_->move_to(holder.place.byte_offset);
  trace::BlockReader blocks(*file_);
  blocks.go_on_at(holder.place);
  trace::Block block;
  if (blocks.next(block) != trace::BlockReader::Outcome::block ||
      block.kind != trace::BlockKind::labels)
    return std::nullopt;
  SetFinder finder(sink_, set - holder.first_set);
  trace::LabelDecoder decoder;
  decoder.go_on_after(std::numeric_limits<std::uint32_t>::max(),
                      [](std::uint64_t) { return std::optional<std::uint32_t>(0); });
  if (!decoder.decode(trace::InBytes(block.content), definitions_, finder) || !finder.found())
    return std::nullopt;
  sets_.emplace(set, *finder.found());
  return finder.found();
}

}  // namespace gpumemprof
