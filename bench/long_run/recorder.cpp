#include "long_run/recorder.h"

namespace gpumemprof::long_run {
namespace {

constexpr std::size_t kBatchEvents = 16'384;
constexpr std::int64_t kFirstTimeNs = 1'760'000'000'000'000'000;
// A card is sampled about once a second, and soon after its pool has changed.
constexpr std::int64_t kSampleEveryNs = 1'000'000'000;
constexpr std::int64_t kSampleSoonNs = 100'000'000;
// What the card holds beside the pool.
constexpr std::uint64_t kContextBytes = 512 * kMiB;
constexpr std::uint64_t kFirmwareBytes = 384 * kMiB;

}  // namespace

Recorder::Recorder(TraceWriter& writer, const RecorderOptions& options)
    : writer_(&writer), options_(options), random_(options.seed), time_ns_(kFirstTimeNs) {}

void Recorder::add(Event event, Delay delay) {
  time_ns_ += static_cast<std::int64_t>(delay.least_ns + random_.below(delay.spread_ns));
  event.time_ns = time_ns_;
  events_.push_back(event);
  counts_.add(event.action);
  ++rows_;
  if (events_.size() >= kBatchEvents) hand_over();
  if (rows_ - flushed_rows_ >= options_.flush_every) flush();
}

bool Recorder::is_sample_due(bool has_pool_changed) const {
  return time_ns_ - last_sample_ns_ >= (has_pool_changed ? kSampleSoonNs : kSampleEveryNs);
}

void Recorder::sample_card(std::uint64_t reserved_bytes) {
  last_sample_ns_ = time_ns_;
  DeviceSample sample;
  sample.time_ns = time_ns_;
  sample.total_bytes = options_.card_bytes;
  sample.process_bytes = reserved_bytes + kContextBytes;
  sample.used_bytes = sample.process_bytes;
  sample.other_processes_bytes = 0;
  sample.firmware_bytes = kFirmwareBytes;
  sample.before_event = next_row();
  writer_->add_sample(sample);
}

void Recorder::hand_over() {
  writer_->append_events(0, events_);
  events_.clear();
}

void Recorder::flush() {
  hand_over();
  flushed_rows_ = rows_;
  // A failure is kept, and close() reports it.
  (void)writer_->flush();
}

Status Recorder::close() {
  hand_over();
  Ending ending;
  ending.is_closed = true;
  ending.reason = "exit";
  ending.has_counts = true;
  DeviceCounts device;
  device.made = counts_;
  ending.devices.push_back(device);
  return writer_->close(ending);
}

}  // namespace gpumemprof::long_run
