#include "session/ranks/rank_summary.h"

#include <filesystem>
#include <new>
#include <system_error>

#include "base/byte_source.h"
#include "report/ranks/rank_summary_json.h"
#include "session/reported_run.h"
#include "trace/chapters/chapter_folder.h"

namespace gpumemprof {
namespace {

Result<std::string> summarise(const std::string& recording, bool is_running) {
  // Most were found in a folder, not named: nothing in it may be waited for.
  if (!is_folder(recording)) {
    const Result<std::unique_ptr<FileSource>> file = FileSource::open(recording);
    if (!file) return file.error();
  }
  Result<std::unique_ptr<ReportedRun>> run = ReportedRun::open(recording, {}, is_running);
  if (!run) return run.error();
  Result<Overview> overview = run.value()->overview();
  if (!overview) return overview.error();
  RankSummary summary;
  summary.overview = std::move(overview).value();
  std::error_code unknown;
  if (std::filesystem::is_regular_file(recording, unknown))
    summary.recording_bytes = std::filesystem::file_size(recording, unknown);
  const Store& store = run.value()->store();
  if (run.value()->whole() != nullptr) {
    for (const DeviceOverview& device : summary.overview.devices) {
      for (const auto& record : store.devices()) {
        if (record->device != device.device) continue;
        summary.pools.push_back(pool_over_steps(*record, store.samples(), device.sources.steps));
      }
    }
  }
  return rank_summary_json(summary, store);
}

}  // namespace

Result<std::string> rank_summary(const std::string& recording, bool is_running) {
  try {
    return summarise(recording, is_running);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::environment, "this machine does not have enough memory to read it",
                 recording, "read it on a machine with more memory"};
  }
}

}  // namespace gpumemprof
