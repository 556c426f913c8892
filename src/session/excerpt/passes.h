// RunPasses: reads a recording more than once, and the same each time, though its recorder may go
// on meanwhile: a file is read as far as it went at first, and of a folder the chapters that were
// there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "index/index_maker.h"
#include "session/formats.h"
#include "trace/chapters/held_chapters.h"

namespace gpumemprof {

class RunPasses {
 public:
  // Progress counts two passes.
  RunPasses(std::string path, OpenOptions options)
      : path_(std::move(path)), options_(std::move(options)) {}

  // Delivers the recording from its beginning, with its native frames resolved. A maker notes where
  // its blocks are.
  Status deliver(EventSink& sink, IndexMaker* maker = nullptr);
  // The same once more while it is being delivered, without progress.
  Status deliver_again(EventSink& sink);
  // After the first pass: what was read, for the index that is made of it.
  [[nodiscard]] const std::optional<Identity>& identity() const { return identity_; }

 private:
  Status begin();
  [[nodiscard]] Result<std::unique_ptr<EventSource>> open(const OpenOptions& options);

  std::string path_;
  OpenOptions options_;
  std::uint64_t passes_ = 0;
  std::optional<Identity> identity_;
  std::shared_ptr<HeldChapters> chapters_;   // of a folder
  std::optional<std::uint64_t> size_bytes_;  // of a file of ours
};

}  // namespace gpumemprof
