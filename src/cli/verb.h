// A verb of the command line, and what all verbs share: opening recordings with a line of progress,
// and reporting failures.
//
// A verb is one file in cli/verbs, which defines prepare_<name>(), one line in cli/verb_table.cpp,
// and one page, docs/cli/<name>.md. Those of the Python package are all in cli/python_verbs.cpp.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "report/text/overview/overview_text.h"
#include "session/excerpt/excerpt.h"
#include "session/recording.h"

namespace CLI {
class App;
}

namespace gpumemprof::cli {

// Runs the verb once its flags have been parsed; returns the exit code.
using VerbAction = std::function<int(const Environment&)>;

struct Verb {
  const char* name;
  const char* help;
  // Adds the flags to `verb`. The action owns what they are stored in.
  VerbAction (*prepare)(CLI::App& verb);
};

// In the order in which the help lists them.
std::span<const Verb> verbs();

// Prints the sentence to standard error; returns the exit code.
int fail(const Error& error);

// With a line of progress on the terminal.
Result<std::shared_ptr<const Recording>> open_recording(const std::string& file,
                                                        const Terminal& terminal);
// The part that is asked for; else, of a long recording, the steps around its peak, unless it is to
// be read whole.
Result<std::shared_ptr<const Recording>> open_part(const std::string& file,
                                                   const Terminal& terminal,
                                                   const std::optional<AskedPart>& asked,
                                                   bool reads_whole);
// Says what reading a long recording as a whole takes, before it starts.
void print_memory_of_whole(const std::string& file, const std::string& instead);

// The exit code after everything has been printed: a truncated recording is reported and fails.
int finish(const Recording& recording);

TextStyle text_style(const Terminal& terminal);

}  // namespace gpumemprof::cli
