// ScannedRun: what a recording says about itself, in memory that does not grow with its length: its
// events are counted and forgotten, or written to another file.
#pragma once

#include <map>
#include <string>

#include "analysis/info/recording_info.h"
#include "base/result.h"
#include "session/formats.h"

namespace gpumemprof {

struct ScannedRun {
  RecordingInfo info;
  std::optional<Error> cut;  // a sentence where the file was cut off
};

Result<ScannedRun> scan_run(const FileInfo& file, const OpenOptions& options);
// The same, and writes it to another .gmp file while it is read.
Result<ScannedRun> copy_run(const FileInfo& file, const OpenOptions& options,
                            const std::string& output, FileSink::Existing existing);

}  // namespace gpumemprof
