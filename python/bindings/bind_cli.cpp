#include <vector>

#include "bindings.h"
#include "cli/cli.h"

namespace gpumemprof::bindings {
namespace {

int run_cli(const nb::list& arguments, const nb::bytes& demo_file, const nb::bytes& viewer_file) {
  std::vector<std::string> texts;
  for (const nb::handle argument : arguments) {
    const auto bytes = nb::cast<nb::bytes>(argument);
    texts.emplace_back(bytes.c_str(), bytes.size());
  }
  std::vector<const char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const cli::Environment environment{std::string(demo_file.c_str(), demo_file.size()),
                                     std::string(viewer_file.c_str(), viewer_file.size())};
  const nb::gil_scoped_release no_gil;
  return cli::main(static_cast<int>(pointers.size()), pointers.data(), environment);
}

}  // namespace

void bind_cli(nb::module_& module) {
  module.def("run_cli", run_cli, nb::arg("arguments"), nb::arg("demo_file"),
             nb::arg("viewer_file"));
}

}  // namespace gpumemprof::bindings
