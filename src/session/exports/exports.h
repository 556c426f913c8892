// Writes a recording of any length in the formats of other tools: profiles by call stack (pprof,
// speedscope), a trace (Perfetto) and tables (CSV). Reads it window by window; memory grows with
// its stacks, not with its length.
#pragma once

#include <optional>
#include <string>

#include "analysis/overview/overview.h"
#include "base/file_sink.h"
#include "base/result.h"
#include "session/tables/window_tables.h"

namespace gpumemprof {

struct ExportOptions {
  std::optional<AskedMoment> at;      // of a profile; none: the peak
  std::optional<DeviceIndex> device;  // none: all
  std::string clock_of;               // of a trace: the Kineto trace whose clock it shares
  std::string table;                  // of tables: only this one; empty: all, to a folder
};

Status write_pprof(TabledRun& run, const ExportOptions& options, const std::string& path,
                   FileSink::Existing existing);
Status write_speedscope(TabledRun& run, const ExportOptions& options, const std::string& path,
                        FileSink::Existing existing);
// All tables to the files of a new folder, or one of them to a file.
Status write_csv(TabledRun& run, const ExportOptions& options, const std::string& path,
                 FileSink::Existing existing);
Status write_perfetto(TabledRun& run, const ExportOptions& options, const std::string& path,
                      FileSink::Existing existing);

}  // namespace gpumemprof
