// ViewedRun: any recording, for viewing: read whole, or through an index if it is too long for
// memory.
#pragma once

#include <memory>
#include <string>

#include "session/formats.h"
#include "session/long_view/long_run.h"

namespace gpumemprof {

struct ViewedRun {
  // One of them.
  std::shared_ptr<const Recording> whole;
  std::shared_ptr<const LongRun> indexed;
  // What the user should know about the index; mostly empty.
  std::string note;

  ViewedRun(std::shared_ptr<const Recording> recording) : whole(std::move(recording)) {}
  ViewedRun(std::shared_ptr<const LongRun> run) : indexed(std::move(run)) {}

  [[nodiscard]] const std::string& path() const {
    return whole != nullptr ? whole->path() : indexed->path();
  }
  [[nodiscard]] const Store& store() const {
    return whole != nullptr ? whole->store() : indexed->store();
  }
  // A sentence where the file was cut off; nothing where it is complete.
  [[nodiscard]] std::optional<Error> cut() const { return cut_in(store().origin(), path()); }
};

struct ViewedRunOptions {
  OpenOptions open;
  std::size_t most_devices = ~std::size_t{0};  // those with the highest peaks
};

// Makes the index if a long recording has none. A recording that is still written is copied to a
// temporary folder, as it is now, and the index lies there; so it does where nothing can be written
// beside the recording.
Result<ViewedRun> open_viewed_run(const std::string& path, const ViewedRunOptions& options = {});

}  // namespace gpumemprof
