// TraceReader: a .gmp file → events, block by block, as far as it is whole.
//
// A file that is cut or damaged is delivered up to its last whole block; the origin's cut says
// where and why. A file that nobody closed (the process was killed, or still runs) is whole all the
// same: the fact "ended" then says "not closed", else the reason it was closed with.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/byte_source.h"
#include "event/event_sink.h"

namespace gpumemprof {

// Whether a file that starts so is a .gmp file; the first 8 bytes decide.
bool looks_like_trace(std::span<const std::byte> start);

inline constexpr std::string_view kEndedFact = "ended";

class TraceReader final : public EventSource {
 public:
  // Called now and then with the bytes read so far and in all.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

  // Fails where the file cannot be read, is no .gmp file, or is newer than this reader.
  static Result<std::unique_ptr<TraceReader>> open(const std::string& path, Progress progress = {});
  // Bytes that must outlive the reader.
  static Result<std::unique_ptr<TraceReader>> from_bytes(std::span<const std::byte> bytes,
                                                         std::string name);

  // Memory beyond what a file of its size may take, for one that is trusted.
  void allow_memory(std::uint64_t bytes) { least_limit_bytes_ = bytes; }

  // Once.
  Status deliver(EventSink& sink) override;

  [[nodiscard]] int version() const { return version_; }

 private:
  class Delivery;

  TraceReader(std::unique_ptr<ByteSource> source, std::uint64_t size_bytes, std::string name,
              Progress progress)
      : source_(std::move(source)),
        size_bytes_(size_bytes),
        name_(std::move(name)),
        progress_(std::move(progress)) {}
  Status read_file_header();

  std::unique_ptr<ByteSource> source_;
  std::uint64_t size_bytes_;
  std::string name_;
  Progress progress_;
  int version_ = 0;
  std::uint64_t least_limit_bytes_ = 0;
};

}  // namespace gpumemprof
