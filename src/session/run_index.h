// RunIndex: what was found in a long recording, in a file beside it (`run.gmp.index`), so that the
// next report need not read the recording.
//
// It belongs to one recording, byte for byte, and to one build of gpumemprof. Any other is ignored
// and made again.
#pragma once

#include <memory>
#include <string>

#include "analysis/overview/overview.h"
#include "base/result.h"
#include "store/store.h"

namespace gpumemprof {

struct RunIndex {
  std::unique_ptr<Store> store = std::make_unique<Store>();  // what the overviews refer to
  Overview at_peak;
  Overview at_end;  // only what is of the moment
};

// The same run, about its end.
Overview overview_at_end(Overview at_peak, Overview at_end);

enum class IndexState : std::uint8_t { missing, stale, good };

// The file beside the recording.
std::string index_path(const std::string& recording);
// Fills the index if there is one of this recording.
IndexState read_index(const std::string& recording, RunIndex& index);
Status write_index(const std::string& recording, const Store& store, Overview& at_peak,
                   Overview& at_end);

}  // namespace gpumemprof
