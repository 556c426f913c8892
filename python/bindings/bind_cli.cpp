#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "cli/cli.h"

namespace gpumemprof::bindings {
namespace {

std::string text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

std::vector<std::string> texts_of(const nb::list& list) {
  std::vector<std::string> texts;
  for (const nb::handle text : list) texts.push_back(text_of(nb::cast<nb::bytes>(text)));
  return texts;
}

// `ranks`: the page's file, its report, and the recordings.
using RanksArgument = std::optional<std::tuple<nb::bytes, nb::bytes, nb::list>>;

int run_cli(const nb::list& arguments, const nb::bytes& demo_file, const nb::bytes& viewer_file,
            const RanksArgument& ranks) {
  const std::vector<std::string> texts = texts_of(arguments);
  std::vector<const char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  cli::Environment environment{text_of(demo_file), text_of(viewer_file)};
  environment.is_in_package = true;
  if (ranks) {
    const auto& [page_file, report, recordings] = *ranks;
    environment.ranks = {text_of(page_file), text_of(report), texts_of(recordings)};
  }
  const nb::gil_scoped_release no_gil;
  return cli::main(static_cast<int>(pointers.size()), pointers.data(), environment);
}

}  // namespace

void bind_cli(nb::module_& module) {
  module.def("run_cli", run_cli, nb::arg("arguments"), nb::arg("demo_file"), nb::arg("viewer_file"),
             nb::arg("ranks") = nb::none());
}

}  // namespace gpumemprof::bindings
