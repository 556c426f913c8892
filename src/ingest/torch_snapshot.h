// TorchSnapshot: a file written by torch.cuda.memory._dump_snapshot (any torch from 2.0 on), as a
// source of events.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/byte_source.h"
#include "event/event_sink.h"

namespace gpumemprof {

// Called occasionally with the bytes read so far and the total.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Whether a file that starts with these bytes may be a snapshot: a pickle of protocol 2 or later,
// or gzip. Older pickles have no magic number.
bool looks_like_snapshot(std::span<const std::byte> start);

class TorchSnapshot final : public EventSource {
 public:
  static Result<std::unique_ptr<TorchSnapshot>> open(const std::string& path,
                                                     Progress progress = {});
  // The bytes must outlive the source.
  static std::unique_ptr<TorchSnapshot> from_bytes(std::span<const std::byte> bytes,
                                                   std::string name);

  // Allows more memory than a file of its size may use, for a trusted file.
  void allow_memory(std::uint64_t bytes) { least_limit_bytes_ = bytes; }

  Status deliver(EventSink& sink) override;

 private:
  TorchSnapshot(std::unique_ptr<ByteSource> source, std::uint64_t size_bytes, std::string name,
                Progress progress)
      : source_(std::move(source)),
        size_bytes_(size_bytes),
        name_(std::move(name)),
        progress_(std::move(progress)) {}

  std::unique_ptr<ByteSource> source_;
  std::uint64_t size_bytes_;
  std::string name_;
  Progress progress_;
  std::uint64_t least_limit_bytes_ = 0;
};

}  // namespace gpumemprof
