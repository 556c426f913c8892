// JaxProfile: what jax.profiler.save_device_memory_profile() writes, a gzipped pprof profile of
// what was live at one moment, as a source of events. It has no history.
#pragma once

#include <memory>
#include <string>

#include "event/event_sink.h"
#include "ingest/torch_snapshot.h"

namespace gpumemprof {

// Whether a file whose content starts with these bytes may be a pprof profile: it begins with the
// type of its samples.
bool looks_like_pprof(std::span<const std::byte> start);

class JaxProfile final : public EventSource {
 public:
  static Result<std::unique_ptr<JaxProfile>> open(const std::string& path, Progress progress = {});
  // The bytes must outlive the source.
  static std::unique_ptr<JaxProfile> from_bytes(std::span<const std::byte> bytes, std::string name);

  // Allows a gzipped file to expand to more than a file of its size may.
  void allow_memory(std::uint64_t bytes) { least_limit_bytes_ = bytes; }

  Status deliver(EventSink& sink) override;

 private:
  JaxProfile(std::unique_ptr<ByteSource> source, std::uint64_t size_bytes, std::string name)
      : source_(std::move(source)), size_bytes_(size_bytes), name_(std::move(name)) {}

  Result<std::string> read_all();

  std::unique_ptr<ByteSource> source_;
  std::uint64_t size_bytes_;
  std::string name_;
  std::string broken_;  // why the file ends early
  std::uint64_t least_limit_bytes_ = 0;
};

}  // namespace gpumemprof
