// The chapter block: where in a long run a file begins.
#pragma once

#include <cstddef>

#include "event/chapter.h"
#include "trace/bytes_io.h"
#include "trace/content/definitions.h"

namespace gpumemprof::trace {

// Appends the content of one block, with live allocations from row `first` on, and returns the row
// to go on with; all of them have been written once it is their number.
std::size_t encode_chapter(OutBytes& out, const ChapterStart& start, std::size_t first);

class ChapterDecoder {
 public:
  // False if the content is malformed.
  bool decode(InBytes in, const DefinitionMap& definitions);
  // All of it has been read.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] const ChapterStart& start() const { return start_; }

 private:
  ChapterStart start_;
  bool is_whole_ = false;
};

}  // namespace gpumemprof::trace
