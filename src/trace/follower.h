// TraceFollower: a .gmp file that is still being written → events, as they come.
//
// It only reads the file, so the recorded program does not notice. Each call delivers the whole
// blocks that were written since the last one.
#pragma once

#include <memory>
#include <string>

#include "base/byte_source.h"
#include "event/event_sink.h"
#include "trace/delivery.h"

namespace gpumemprof {

class TraceFollower {
 public:
  enum class State : std::uint8_t {
    behind,   // there is more to read
    waiting,  // everything in the file has been read; it has not been closed
    ended,    // the recording was closed
  };

  // The sink must outlive it. Fails if the file cannot be read, is not a .gmp file, or is newer
  // than this reader.
  static Result<std::unique_ptr<TraceFollower>> open(const std::string& path, EventSink& sink);

  // Delivers what is new, and stops after about `most_bytes` of the file. Fails if the file is
  // damaged, has become shorter, or was replaced.
  Result<State> read_more(std::uint64_t most_bytes);

  [[nodiscard]] std::uint64_t bytes_read() const { return delivery_.byte_offset(); }
  // How the recording ended, once it has.
  [[nodiscard]] const std::optional<Ending>& ending() const { return delivery_.ending(); }

 private:
  TraceFollower(std::unique_ptr<FileSource> file, int version, std::string path, EventSink& sink);

  std::unique_ptr<FileSource> file_;
  std::string path_;
  trace::Delivery delivery_;
};

}  // namespace gpumemprof
