// TraceFollower: a .gmp file that is still being written → events, as they come.
//
// It only reads the file, so the recorded program does not notice. Each call delivers the whole
// blocks that were written since the last one. Of a folder of chapters, it reads one after the
// other, the oldest that is left first, and goes on to the next when one was closed.
#pragma once

#include <memory>
#include <string>

#include "base/byte_source.h"
#include "event/event_sink.h"
#include "trace/chapters/chapter_join.h"
#include "trace/delivery.h"

namespace gpumemprof {

class TraceFollower {
 public:
  enum class State : std::uint8_t {
    behind,   // there is more to read
    waiting,  // everything in the file has been read; it has not been closed
    ended,    // the recording was closed
  };

  // The sink must outlive it; it need not keep events. Fails if the file cannot be read, is not a
  // .gmp file, or is of another version. `allowed_bytes`: reading stops where reading the whole
  // file would need more memory than files of its size do, or than this.
  static Result<std::unique_ptr<TraceFollower>> open(const std::string& path, EventSink& sink,
                                                     std::uint64_t allowed_bytes = 0);

  // Delivers what is new, and stops after about `most_bytes` of the file, or the events that so
  // many hold. Fails if the file is damaged, has become shorter, or was replaced.
  Result<State> read_more(std::uint64_t most_bytes);

  [[nodiscard]] std::uint64_t bytes_read() const {
    return closed_bytes_ + (delivery_ == nullptr ? 0 : delivery_->byte_offset());
  }
  // How the recording ended, once it has.
  [[nodiscard]] const std::optional<Ending>& ending() const { return ending_; }

 private:
  TraceFollower(std::string path, EventSink& sink, std::uint64_t allowed_bytes)
      : path_(std::move(path)), sink_(sink), allowed_bytes_(allowed_bytes) {}

  Status open_file(const std::string& path, EventSink& sink);
  // Opens the oldest chapter after `number_`. False: there is none yet.
  Result<bool> open_next_chapter();
  // Reads on in the file that is open.
  Result<State> read_file(std::uint64_t most_bytes);

  std::string path_;
  EventSink& sink_;
  std::uint64_t allowed_bytes_;
  std::unique_ptr<ChapterJoin> join_;  // for a folder
  std::uint32_t number_ = 0;           // of the chapter that is open, or was last
  std::uint64_t closed_bytes_ = 0;     // of chapters that were read to their end
  std::unique_ptr<FileSource> file_;
  std::unique_ptr<trace::Delivery> delivery_;
  std::optional<Ending> ending_;
};

}  // namespace gpumemprof
