#include "session/excerpt/made_index.h"

#include "index/index_maker.h"
#include "session/excerpt/long_file.h"
#include "symbols/resolving_sink.h"
#include "windows/windowed_run.h"

namespace gpumemprof {

bool make_index(const std::string& path, const OpenOptions& options) {
  const std::optional<WindowSizes> sizes = window_sizes(path);
  if (!sizes) return false;
  Result<std::unique_ptr<IndexMaker>> made = IndexMaker::create(path);
  if (!made) return false;
  IndexMaker& maker = *made.value();
  std::uint64_t passes = 0;
  bool is_survey = true;
  WindowedRun run(
      path,
      [&](EventSink& sink) -> Status {
        OpenOptions pass = options;
        if (options.progress) {
          pass.progress = [&](std::uint64_t done, std::uint64_t total) {
            options.progress((passes * total) + done, 2 * total);
          };
        }
        const Result<std::unique_ptr<EventSource>> source = open_source(path, pass);
        if (!source) return source.error();
        auto* const reader = dynamic_cast<TraceReader*>(source.value().get());
        ResolvingSink resolving(sink);
        Status delivered = is_survey || reader == nullptr ? source.value()->deliver(resolving)
                                                          : maker.deliver(*reader, resolving);
        passes = 1;
        return delivered;
      },
      *sizes);
  const Result<bool> surveyed = run.survey();
  // As for a report, which would otherwise find an index that proves less.
  if (!surveyed || !surveyed.value() || run.is_failure_provable()) return false;
  is_survey = false;
  Result<Overview> overview = run.overview({}, &maker);
  if (!overview) return false;
  return static_cast<bool>(maker.finish(run.store(), overview.value(), run.at_end()));
}

}  // namespace gpumemprof
