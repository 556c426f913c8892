// IndexMaker: makes the index of a recording while the recording is read for its report.
//
// Checkpoints are made about every 250,000 events, and less often where all of them would take more
// than 4 % of the recording, or 128 MiB: one is made once those before it take no more than the
// share that the part of the recording before it has of that.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "event/sinks/forwarding_sink.h"
#include "index/index_file.h"
#include "trace/recording_place.h"
#include "windows/checkpoint.h"

namespace gpumemprof {

struct IndexOptions {
  std::uint64_t checkpoint_events = 250'000;
  int compression_level = 3;  // 0: blocks are stored as they are
  // Of what is read; none: of the recording as it is now.
  std::optional<Identity> identity = std::nullopt;
};

class IndexMaker final : public IndexTaker {
 public:
  // Fails if no file can be written beside the recording.
  static Result<std::unique_ptr<IndexMaker>> create(const std::string& recording,
                                                    const IndexOptions& options = {});

  // Delivers the recording into the sink, and notes where its blocks are.
  Status deliver(PlacedSource& source, EventSink& sink);

  bool wants_checkpoint(Spot spot) override;
  void add_checkpoint(const DeviceCheckpoint& checkpoint) override;
  void add_buckets(DeviceIndex device, std::span<const PyramidBucket> buckets) override;
  void add_failure(DeviceIndex device, const OverlayOom& failure) override;

  // After the whole recording: the file appears. Nothing may be called after it.
  Status finish(const Store& store, Overview& at_peak, Overview& at_end);

 private:
  class Noter;
  IndexMaker(std::string recording, const Identity& identity, const IndexOptions& options,
             std::unique_ptr<IndexFileWriter> file);

  std::string recording_;
  IndexOptions options_;
  std::unique_ptr<IndexFileWriter> file_;
  IndexDirectory directory_;
  trace::DefinedRows rows_;    // of the file that is being read
  std::uint32_t chapter_ = 0;  // that it is
  std::map<DeviceIndex, IndexedDevice> devices_;
  std::map<DeviceIndex, std::vector<OverlayOom>> failures_;
  // What the checkpoints of a device refer to.
  struct Bases {
    CheckpointRows whole;   // the last that was stored whole
    CheckpointRows middle;  // the last that others refer to: it changes the whole one, or is it
    std::size_t middle_rows = 0;  // that the middle added
    std::size_t fewest_rows = 0;  // that a checkpoint since then added
    std::size_t again_rows = 0;   // that those since then added beyond that: again and again
  };
  StoredCheckpoint stored_against(Bases& bases, const DeviceCheckpoint& checkpoint, bool is_first);
  void write_label_blocks();
  void write_rows();

  std::map<DeviceIndex, Bases> bases_;
  std::vector<LabelBlock> label_blocks_;  // that are not in the file yet
  const PlacedSource* source_ = nullptr;  // while it delivers
  RecordingPlace end_;                    // behind the last block that it delivered
  std::uint64_t events_since_ = 0;        // the last checkpoint
  std::uint64_t checkpoint_bytes_ = 0;
};

}  // namespace gpumemprof
