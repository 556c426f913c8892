// TraceReader: a .gmp file → events, block by block, as far as it is intact.
//
// A truncated or damaged file is delivered up to its last whole block; the origin's cut says where
// and why. A file that nobody closed (the process was killed, or is still running) still counts as
// whole: the fact "ended" then says "not closed", otherwise the reason it was closed with.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/byte_source.h"
#include "event/event_sink.h"
#include "trace/recording_place.h"

namespace gpumemprof {

// Whether a file that starts with these bytes is a .gmp file; the first 8 bytes decide.
bool looks_like_trace(std::span<const std::byte> start);

inline constexpr std::string_view kEndedFact = "ended";

// The memory that a file of that size may take once it is open.
std::uint64_t memory_limit_bytes(std::uint64_t file_bytes);

class TraceReader final : public PlacedSource {
 public:
  // Called now and then with the bytes read so far and in total.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

  // Fails if the file cannot be read, is not a .gmp file, or is of another version.
  static Result<std::unique_ptr<TraceReader>> open(const std::string& path, Progress progress = {});
  // Bytes that must outlive the reader.
  static Result<std::unique_ptr<TraceReader>> from_bytes(std::span<const std::byte> bytes,
                                                         std::string name);

  // Allows more memory than a file of its size may normally take, for a trusted file.
  void allow_memory(std::uint64_t bytes) { least_limit_bytes_ = bytes; }
  // Reads it as if it ended there, however long it has become.
  void set_end(std::uint64_t bytes);

  // Call once.
  Status deliver(EventSink& sink) override;

  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] RecordingPlace begin() const override;
  [[nodiscard]] RecordingPlace place() const override { return {0, 0, place_}; }
  [[nodiscard]] bool can_begin_here() const override { return true; }
  [[nodiscard]] std::uint64_t bytes_before() const override { return place_.byte_offset; }

 private:
  TraceReader(std::unique_ptr<ByteSource> source, std::uint64_t size_bytes, std::string name,
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
  trace::BlockPlace place_;
};

}  // namespace gpumemprof
