// A recording, written again in another format.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_sink.h"
#include "session/recording.h"

namespace gpumemprof {

enum class FileFormat : std::uint8_t { gmp, torch_snapshot };

// The file appears under its name only when it is whole; what was there before stays until then.
Status convert(const Recording& recording, FileFormat format, const std::string& path,
               FileSink::Existing existing);

}  // namespace gpumemprof
