// ChromeTrace: a trace that torch.profiler exported (profile_memory=True, export_chrome_trace), as
// a source of events. Plain JSON or gzipped.
#pragma once

#include <memory>
#include <string>

#include "event/event_sink.h"
#include "ingest/torch_snapshot.h"

namespace gpumemprof {

// Whether a file whose content starts with these bytes is JSON.
bool looks_like_json(std::span<const std::byte> start);

class ChromeTrace final : public EventSource {
 public:
  static Result<std::unique_ptr<ChromeTrace>> open(const std::string& path, Progress progress = {});
  // The bytes must outlive the source.
  static std::unique_ptr<ChromeTrace> from_bytes(std::span<const std::byte> bytes,
                                                 std::string name);

  // Allows a gzipped file to expand to more than a file of its size may.
  void allow_memory(std::uint64_t bytes) { least_limit_bytes_ = bytes; }

  Status deliver(EventSink& sink) override;

 private:
  ChromeTrace(std::unique_ptr<ByteSource> source, std::uint64_t size_bytes, std::string name,
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
