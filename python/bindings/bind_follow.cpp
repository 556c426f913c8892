#include <nanobind/stl/string.h>

#include "bindings.h"
#include "capture/capture.h"
#include "follow/background_look.h"
#include "follow/followed_run.h"
#include "report/live/live_json.h"
#include "session/formats.h"

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

nb::list as_rows(const std::vector<KeptSite>& sites) {
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

nb::object take(BackgroundLook& look, std::uint32_t most_ms) {
  const std::optional<std::vector<KeptSite>> sites = [&] {
    std::optional<nb::gil_scoped_release> release;
    if (most_ms > 0) release.emplace();  // nobody waits otherwise
    return look.take(std::chrono::milliseconds(most_ms));
  }();
  return sites ? nb::object(as_rows(*sites)) : nb::none();
}

nb::list look_now(BackgroundLook& look, const KeptSitesWanted& wanted) {
  const std::vector<KeptSite> sites = [&] {
    const nb::gil_scoped_release release;
    return look.look_now(wanted);
  }();
  return as_rows(sites);
}

void bind_background_look(nb::module_& module) {
  nb::class_<BackgroundLook>(module, "BackgroundLook")
      .def(nb::new_([](std::string path, capture::RecordingNumber recording) {
             return new BackgroundLook(std::move(path),
                                       [recording] { capture::flush_recording(recording); });
           }),
           nb::arg("path"), nb::arg("recording"))
      .def(
          "start",
          [](BackgroundLook& look, std::size_t most_sites, std::size_t most_blocks,
             bool only_growing) { return look.start({most_sites, most_blocks, only_growing}); },
          nb::arg("most_sites"), nb::arg("most_blocks"), nb::arg("only_growing"))
      .def("take", take, nb::arg("most_ms"))
      .def(
          "look_now",
          [](BackgroundLook& look, std::size_t most_sites, std::size_t most_blocks) {
            return look_now(look, {most_sites, most_blocks, false});
          },
          nb::arg("most_sites"), nb::arg("most_blocks"))
      .def("abandon", &BackgroundLook::abandon);
}

}  // namespace

void bind_follow(nb::module_& module) {
  nb::class_<FollowedRun>(module, "FollowedRun")
      .def(nb::new_([](const std::string& path) {
             const std::uint64_t allowed_bytes = value_or_raise(allowed_memory());
             return value_or_raise(FollowedRun::open(path, allowed_bytes)).release();
           }),
           nb::arg("path"))
      .def("read", read_more, nb::arg("most_bytes"), nb::arg("most_sites"), nb::arg("most_steps"))
      .def(
          "report",
          [](FollowedRun& run, std::size_t most_sites, std::size_t most_steps) {
            return live_json(run.report(most_sites, most_steps));
          },
          nb::arg("most_sites"), nb::arg("most_steps"));
  bind_background_look(module);
}

}  // namespace gpumemprof::bindings
