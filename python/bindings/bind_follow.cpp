#include <nanobind/stl/string.h>

#include "bindings.h"
#include "follow/followed_run.h"
#include "report/live/live_json.h"

namespace gpumemprof::bindings {
namespace {

// Only the file is read without the GIL: Python objects are not touched meanwhile.
std::string read_more(FollowedRun& run, std::uint64_t most_bytes, std::size_t most_sites,
                      std::size_t most_steps) {
  Result<std::string> json = [&]() -> Result<std::string> {
    const nb::gil_scoped_release release;
    const Result<LiveReport> report = run.read(most_bytes, most_sites, most_steps);
    if (!report) return report.error();
    return live_json(report.value());
  }();
  return value_or_raise(std::move(json));
}

nb::object text_or_none(const std::string& text) {
  return text.empty() ? nb::none() : nb::object(to_str(text));
}

nb::list kept_sites(FollowedRun& run, std::size_t most_sites, std::size_t most_blocks) {
  const std::vector<KeptSite> sites = [&] {
    const nb::gil_scoped_release release;
    return run.kept_sites(most_sites, most_blocks);
  }();
  nb::list found;
  for (const KeptSite& kept : sites) {
    nb::dict row;
    row["device"] = kept.device;
    row["file"] = text_or_none(kept.site.file);
    row["line"] = kept.site.line;
    row["function"] = text_or_none(kept.site.function);
    row["is_backward"] = kept.site.is_backward;
    row["bytes"] = kept.bytes;
    row["blocks"] = kept.site.blocks;
    row["growth_bytes_per_step"] = kept.site.growth_bytes_per_step
                                       ? nb::object(nb::float_(*kept.site.growth_bytes_per_step))
                                       : nb::none();
    row["old_bytes"] = kept.old_bytes;
    row["old_blocks"] = kept.old_blocks;
    nb::list places;
    for (const KeptBlock& block : kept.blocks)
      places.append(nb::make_tuple(block.address, block.bytes));
    row["places"] = places;
    found.append(row);
  }
  return found;
}

}  // namespace

void bind_follow(nb::module_& module) {
  nb::class_<FollowedRun>(module, "FollowedRun")
      .def(nb::new_([](const std::string& path) {
             return value_or_raise(FollowedRun::open(path)).release();
           }),
           nb::arg("path"))
      .def("read", read_more, nb::arg("most_bytes"), nb::arg("most_sites"), nb::arg("most_steps"))
      .def(
          "report",
          [](FollowedRun& run, std::size_t most_sites, std::size_t most_steps) {
            return live_json(run.report(most_sites, most_steps));
          },
          nb::arg("most_sites"), nb::arg("most_steps"))
      .def("kept_sites", kept_sites, nb::arg("most_sites"), nb::arg("most_blocks"));
}

}  // namespace gpumemprof::bindings
