// Short texts that are stored where they are used: names, reasons, facts.
#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"
#include "trace/bytes_io.h"

namespace gpumemprof::trace {

// A longer one is truncated.
inline void put_text(OutBytes& out, std::string_view text) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 10;
  out.text(text.substr(0, kMaxBytes));
}

inline std::string take_text(InBytes& in) { return repaired_utf8(in.text()); }

}  // namespace gpumemprof::trace
