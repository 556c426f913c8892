#include "session/excerpt/made_index.h"

#include "index/index_maker.h"
#include "session/excerpt/long_file.h"
#include "session/excerpt/passes.h"
#include "windows/windowed_run.h"

namespace gpumemprof {

bool make_index(const std::string& path, const OpenOptions& options) {
  const std::optional<WindowSizes> sizes = window_sizes(path);
  if (!sizes) return false;
  std::unique_ptr<IndexMaker> maker;  // while the second pass runs
  RunPasses passes(path, options);
  WindowedRun run(path, [&](EventSink& sink) { return passes.deliver(sink, maker.get()); }, *sizes);
  const Result<bool> surveyed = run.survey();
  // As for a report, which would otherwise find an index that proves less.
  if (!surveyed || !surveyed.value() || run.needs_whole_for_proof()) return false;
  run.let_prove_failures([&](EventSink& sink) { return passes.deliver_again(sink); });
  IndexOptions index;
  index.identity = passes.identity();
  Result<std::unique_ptr<IndexMaker>> made = IndexMaker::create(path, index);
  if (!made) return false;
  maker = std::move(made).value();
  Result<Overview> overview = run.overview({}, maker.get());
  if (!overview) return false;
  return static_cast<bool>(maker->finish(run.store(), overview.value(), run.at_end()));
}

}  // namespace gpumemprof
