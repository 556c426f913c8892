#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "cli/terminal.h"
#include "cli/usage.h"
#include "cli/verbs/advise_verb.h"
#include "cli/verbs/convert_verb.h"
#include "cli/verbs/report_verb.h"
#include "cli/verbs/simulate_verb.h"
#include "cli/verbs/view_verb.h"

namespace gpumemprof::cli {
namespace {

int fail(const Error& error) {
  print_error(error.sentence());
  return exit_code(error.code);
}

// CLI11 reports --help and --version as errors too.
int explain(const CLI::App& app, const CLI::ParseError& mistake) {
  std::ostringstream out;
  std::ostringstream unused;
  if (app.exit(mistake, out, unused) != 0) return fail(usage_error(app, mistake));
  print_out(out.str());
  return 0;
}

int dispatch(int argc, const char* const* argv, const Environment& environment) {
  CLI::App app{"gpumemprof: where every byte of GPU memory goes in a PyTorch run", "gpumemprof"};
  app.set_version_flag("--version", GPUMEMPROF_VERSION);
  app.require_subcommand(1);
  app.footer("Start with: gpumemprof demo");
  ReportFlags report_flags;
  ReportFlags demo_flags;
  SimulateFlags replay_flags;
  ConvertFlags convert_flags;
  AdviseFlags advise_flags;
  ViewFlags view_flags;
  add_report_verb(app, report_flags);
  add_demo_verb(app, demo_flags);
  add_view_verb(app, view_flags);
  add_simulate_verb(app, replay_flags);
  add_advise_verb(app, advise_flags);
  add_convert_verb(app, convert_flags);
  // Listed here, but handled by the Python package: the program runs in its interpreter.
  app.add_subcommand("run", "Run a Python program and record every allocation it makes")
      ->prefix_command();
  if (argc <= 1) {
    print_out(app.help());
    return exit_code(ErrorCode::usage);
  }
  if (const std::optional<Error> mistake = unknown_verb(app, argc, argv)) return fail(*mistake);
  if (const std::optional<Error> mistake = flag_with_value(app, argc, argv)) return fail(*mistake);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  if (app.got_subcommand("run")) {
    print_error("run needs Python; type python -m gpumemprof run and the script");
    return exit_code(ErrorCode::environment);
  }
  if (app.got_subcommand("replay")) return run_simulate(replay_flags);
  if (app.got_subcommand("advise")) return run_advise(advise_flags);
  if (app.got_subcommand("view")) return run_view(view_flags, environment);
  if (app.got_subcommand("convert")) return run_convert(convert_flags);
  if (app.got_subcommand("demo")) return run_demo(demo_flags, environment);
  return run_report(report_flags, environment);
}

}  // namespace

int main(int argc, const char* const* argv, const Environment& environment) {
  try {
    const int code = dispatch(argc, argv, environment);
    const std::string lost = lost_output();
    if (lost.empty()) return code;
    return fail({ErrorCode::environment, "the output could not be written (" + lost + ")",
                 "standard output", "make room, or send it elsewhere"});
  } catch (const std::exception& bug) {
    print_error(std::string("internal error, please report it with the command you typed: ") +
                bug.what());
    return exit_code(ErrorCode::bug);
  }
}

}  // namespace gpumemprof::cli
