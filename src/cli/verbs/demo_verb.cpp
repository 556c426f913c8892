// `gpumemprof demo`: the report of a recording that ships with the package.
#include <CLI/CLI.hpp>

#include "cli/verb.h"
#include "cli/verbs/report_verb.h"

namespace gpumemprof::cli {
namespace {

int run_demo(ReportFlags flags, const Environment& environment) {
  if (environment.demo_file.empty()) {
    return fail({ErrorCode::environment, "the demo recording is not installed", "",
                 "install gpumemprof with tools/install, or type gpumemprof report FILE"});
  }
  flags.files = {environment.demo_file};
  flags.command = "gpumemprof demo";
  const int code = run_report(flags, environment);
  if (!flags.is_json && code == 0) {
    print_out("\nTo record your own program:\n  gpumemprof run train.py\n");
  }
  return code;
}

}  // namespace

VerbAction prepare_demo(CLI::App& verb) {
  const auto flags = std::make_shared<ReportFlags>();
  add_report_flags(verb, *flags);
  return [flags](const Environment& environment) { return run_demo(*flags, environment); };
}

}  // namespace gpumemprof::cli
