#include "index/index_maker.h"

#include <algorithm>
#include <limits>

#include "index/run_index.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kLeastCheckpointBytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMostCheckpointBytes = std::uint64_t{128} << 20U;
constexpr std::uint64_t kRecordingParts = 25;  // 4 % of it

std::uint64_t checkpoint_budget(std::uint64_t recording_bytes) {
  return std::clamp(recording_bytes / kRecordingParts, kLeastCheckpointBytes, kMostCheckpointBytes);
}

}  // namespace

// Passes the recording on, and notes its rows, its blocks of labels and how many events there were.
class IndexMaker::Noter final : public ForwardingSink {
 public:
  Noter(IndexMaker& maker, EventSink& to) : ForwardingSink(to), maker_(maker) {}

  StringId add_string(std::string_view text) override {
    return rows().strings.emplace_back(to_.add_string(text));
  }
  StackId add_stack(StackId caller, FrameId frame) override {
    return rows().stacks.emplace_back(to_.add_stack(caller, frame));
  }
  std::uint32_t add_stream(std::uint64_t handle) override {
    return rows().streams.emplace_back(to_.add_stream(handle));
  }
  std::uint32_t add_pool(PoolId pool) override {
    return rows().pools.emplace_back(to_.add_pool(pool));
  }
  std::uint32_t add_label_set(std::span<const Label> labels) override {
    // A chapter is read from its beginning, with all its sets.
    const RecordingPlace place = maker_.source_->place();
    if (place.chapter == 0 && (sets_ == 0 || last_place_ != place.block)) {
      maker_.label_blocks_.push_back({place.block, sets_});
      maker_.write_label_blocks();
      last_place_ = place.block;
    }
    ++sets_;
    return to_.add_label_set(labels);
  }
  void add_events(DeviceIndex device, EventColumns&& events) override {
    const std::size_t count = events.size();
    to_.add_events(device, std::move(events));
    maker_.events_since_ += count;
  }

 private:
  // Every chapter has its own.
  trace::DefinedRows& rows() {
    const std::uint32_t chapter = maker_.source_->place().chapter;
    if (chapter != maker_.chapter_) {
      maker_.write_rows();
      maker_.chapter_ = chapter;
    }
    return maker_.rows_;
  }

  IndexMaker& maker_;
  std::uint32_t sets_ = 0;
  trace::BlockPlace last_place_;  // of labels
};

IndexMaker::IndexMaker(std::string recording, const Identity& identity, const IndexOptions& options,
                       std::unique_ptr<IndexFileWriter> file)
    : recording_(std::move(recording)), options_(options), file_(std::move(file)) {
  directory_.identity = identity;
}

Result<std::unique_ptr<IndexMaker>> IndexMaker::create(const std::string& recording,
                                                       const IndexOptions& options) {
  const Result<Identity> identity =
      options.identity ? Result<Identity>(*options.identity) : identity_of(recording);
  if (!identity) return identity.error();
  Result<std::unique_ptr<IndexFileWriter>> file =
      IndexFileWriter::create(index_path(recording), options.compression_level);
  if (!file) return file.error();
  return std::unique_ptr<IndexMaker>(
      new IndexMaker(recording, identity.value(), options, std::move(file).value()));
}

Status IndexMaker::deliver(PlacedSource& source, EventSink& sink) {
  source_ = &source;
  if (!directory_.checkpoints.empty()) directory_.checkpoints.front() = source.begin();
  chapter_ = source.begin().chapter;
  Noter noter(*this, sink);
  const Status delivered = source.deliver(noter);
  end_ = source.place();
  source_ = nullptr;
  write_rows();
  return delivered;
}

void IndexMaker::write_rows() {
  directory_.rows.push_back({chapter_, file_->write(rows_)});
  rows_ = trace::DefinedRows();
}

bool IndexMaker::wants_checkpoint(Spot spot) {
  RecordingPlace place;  // of the start, it is known when the source is
  if (spot == Spot::end) place = end_;
  if (spot == Spot::here) {
    place = source_->place();
    const std::uint64_t size_bytes = std::max<std::uint64_t>(directory_.identity.size_bytes, 1);
    const double share =
        static_cast<double>(source_->bytes_before()) / static_cast<double>(size_bytes);
    const double allowed = static_cast<double>(checkpoint_budget(size_bytes)) * share;
    if (events_since_ < options_.checkpoint_events || !source_->can_begin_here() ||
        static_cast<double>(checkpoint_bytes_) > allowed)
      return false;
  }
  events_since_ = 0;
  directory_.checkpoints.push_back(place);
  return true;
}

// There are as many as steps.
void IndexMaker::write_label_blocks() {
  constexpr std::size_t kMany = 4096;
  if (source_ != nullptr && label_blocks_.size() < kMany) return;
  directory_.label_blocks.push_back(file_->write(label_blocks_));
  label_blocks_.clear();
}

StoredCheckpoint IndexMaker::stored_against(Bases& bases, const DeviceCheckpoint& checkpoint,
                                            bool is_first) {
  const std::size_t rows = checkpoint.segments.size() + checkpoint.allocations.size();
  StoredCheckpoint stored;
  if (!is_first) {
    stored = to_stored(checkpoint, &bases.middle);
    const std::size_t added = added_rows(stored);
    bases.fewest_rows = std::min(bases.fewest_rows, added);
    bases.again_rows += added - bases.fewest_rows;
    // What checkpoints store again and again has cost more than another middle will.
    if (added <= rows / 2 && bases.again_rows <= bases.middle_rows + added) return stored;
    if (bases.middle.number != bases.whole.number) stored = to_stored(checkpoint, &bases.whole);
  }
  // Once little of the whole one is left, another one serves those that follow better.
  if (is_first || added_rows(stored) > rows / 2) stored = to_stored(checkpoint, nullptr);
  bases.middle = rows_of(checkpoint);
  const bool is_whole = stored.base == stored.number;
  if (is_whole) bases.whole = bases.middle;
  bases.middle_rows = is_whole ? 0 : added_rows(stored);
  bases.fewest_rows = std::numeric_limits<std::size_t>::max();
  bases.again_rows = 0;
  return stored;
}

void IndexMaker::add_checkpoint(const DeviceCheckpoint& checkpoint) {
  IndexedDevice& device = devices_[checkpoint.device];
  const std::uint64_t before = file_->size_bytes();
  StoredCheckpoint stored =
      stored_against(bases_[checkpoint.device], checkpoint, device.states.empty());
  StoredSpans spans = to_stored(checkpoint.spans);
  device.checkpoints.push_back(checkpoint.event);
  device.states.push_back(file_->write(stored));
  device.spans.push_back(file_->write(spans));
  checkpoint_bytes_ += file_->size_bytes() - before;
}

void IndexMaker::add_buckets(DeviceIndex index, std::span<const PyramidBucket> buckets) {
  if (buckets.empty()) return;
  IndexedDevice& device = devices_[index];
  std::vector<PyramidBucket> stored(buckets.begin(), buckets.end());
  device.buckets.push_back(file_->write(stored));
  device.bucket_count += buckets.size();
}

void IndexMaker::add_failure(DeviceIndex device, const OverlayOom& failure) {
  failures_[device].push_back(failure);
}

Status IndexMaker::finish(const Store& store, Overview& at_peak, Overview& at_end) {
  // A recording that grew meanwhile has another identity than what was read.
  const Result<Identity> identity = identity_of(recording_);
  if (!identity) return identity.error();
  if (identity.value() != directory_.identity)
    return Error{ErrorCode::environment, "the recording changed while it was read", recording_,
                 "ask again when it has ended"};
  if (!label_blocks_.empty()) write_label_blocks();
  IndexedNames names = indexed_names(store);
  IndexedDefinitions definitions = indexed_definitions(store);
  IndexedOverviews overviews{std::move(at_peak), std::move(at_end)};
  directory_.names = file_->write(names);
  directory_.definitions = file_->write(definitions);
  directory_.overviews = file_->write(overviews);
  at_peak = std::move(overviews.at_peak);
  at_end = std::move(overviews.at_end);
  for (const DeviceOverview& overview : at_peak.devices) {
    IndexedDevice& device = devices_[overview.device];
    device.device = overview.device;
    device.events = overview.events;
    device.failures = file_->write(failures_[overview.device]);
    directory_.devices.push_back(std::move(device));
  }
  return file_->close(directory_);
}

}  // namespace gpumemprof
