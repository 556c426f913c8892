// Writes a recording as a .gmp file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/file_sink.h"
#include "base/result.h"
#include "store/store.h"

namespace gpumemprof {

using Facts = std::vector<std::pair<std::string, std::string>>;

// The file appears under its name only when it is complete; an existing file stays until then.
// more_facts are added to what the recording itself knows.
Status write_gmp_file(const Store& store, const std::string& path, FileSink::Existing existing,
                      const Facts& more_facts = {});

}  // namespace gpumemprof
