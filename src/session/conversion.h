// Writes a recording in another format.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file_sink.h"
#include "session/recording.h"

namespace gpumemprof {

using Facts = std::vector<std::pair<std::string, std::string>>;

enum class FileFormat : std::uint8_t { gmp, torch_snapshot };

// The file appears under its name only when it is complete; an existing file stays until then.
// more_facts are added to the metadata of a .gmp file.
Status convert(const Recording& recording, FileFormat format, const std::string& path,
               FileSink::Existing existing, const Facts& more_facts = {});

}  // namespace gpumemprof
