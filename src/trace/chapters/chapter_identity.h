// Which chapter of which recording a file is, by its own words: files are renamed and copied.
#pragma once

#include <cstdint>
#include <string>

#include "base/byte_source.h"

namespace gpumemprof {

struct ChapterIdentity {
  std::uint32_t number = 0;  // 0: it is cut off or damaged before it says so
  std::string process;       // that recorded it, with its host; empty: it does not say
};

// The source is positioned after the file header, and somewhere else afterwards.
ChapterIdentity identify_chapter(ByteSource& source);

}  // namespace gpumemprof
