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
          nb::arg("most_sites"), nb::arg("most_steps"));
}

}  // namespace gpumemprof::bindings
