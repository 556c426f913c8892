// `gpumemprof advise`: what each remedy would save in this run, and what it costs.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "analysis/overview/overview.h"
#include "cli/flags/device_flag.h"
#include "cli/flags/number_flag.h"
#include "cli/flags/part_flag.h"
#include "cli/flags/size_flag.h"
#include "cli/usage.h"
#include "cli/verb.h"
#include "report/json/advice_json.h"
#include "report/text/advice/advice_text.h"
#include "session/recording.h"

namespace gpumemprof::cli {
namespace {

struct AdviseFlags {
  std::string file;
  std::string other;
  std::string fit;
  std::string device;
  std::optional<std::string> batch;
  std::optional<std::string> sequence;
  std::vector<std::string> codes;
  std::vector<std::string> together;
  PartFlags part;
  bool is_json = false;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::size_t end = std::min(text.find(at, from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

Result<AdviceOptions> advise_options(const AdviseFlags& flags) {
  AdviceOptions options;
  if (!flags.fit.empty()) {
    const Result<std::uint64_t> bytes = parse_size(flags.fit, "--fit");
    if (!bytes) return bytes.error();
    options.fit_bytes = bytes.value();
  }
  const Result<std::optional<std::uint64_t>> batch =
      parse_number(flags.batch, {.name = "--batch", .least = 1, .hint = "try --batch 32"});
  if (!batch) return batch.error();
  options.batch = batch.value();
  const Result<std::optional<std::uint64_t>> sequence = parse_number(
      flags.sequence, {.name = "--sequence", .least = 1, .hint = "try --sequence 1024"});
  if (!sequence) return sequence.error();
  options.sequence = sequence.value();
  for (const std::string& set : flags.together) options.together.push_back(split(set, '+'));
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return device.error();
  options.device = device.value();
  return options;
}

// The names that --code asks for; an Error where one of them is not a remedy.
Result<std::vector<std::string>> asked_codes(const AdviseFlags& flags, const Advice& advice) {
  std::vector<std::string> names;
  std::string known;
  std::vector<std::string> all;
  for (const Remedy& remedy : advice.remedies) {
    known += (known.empty() ? "" : ", ") + remedy.name;
    all.push_back(remedy.name);
  }
  for (const std::string& name : flags.codes) {
    if (name == "all") return std::vector<std::string>();
    const bool is_known = std::any_of(advice.remedies.begin(), advice.remedies.end(),
                                      [&](const Remedy& remedy) { return remedy.name == name; });
    if (!is_known) return unknown_name("remedy", name, all, "the remedies are " + known);
    names.push_back(name);
  }
  return names;
}

Result<std::string> write_page(const AdviseFlags& flags, const Advice& advice, const Store& store,
                               const TextStyle& style) {
  if (flags.codes.empty()) return advice_text(advice, store, style);
  const Result<std::vector<std::string>> names = asked_codes(flags, advice);
  if (!names) return names.error();
  return advice_code_text(advice, names.value(), style);
}

int run_advise(const AdviseFlags& flags) {
  Result<AdviceOptions> options = advise_options(flags);
  if (!options) return fail(options.error());
  const Terminal terminal = look_at_terminal();
  const auto part = parse_part(flags.part, options.value().device);
  if (!part) return fail(part.error());
  const Result<std::shared_ptr<const Recording>> recording =
      open_part(flags.file, terminal, part.value(), flags.part.reads_whole);
  if (!recording) return fail(recording.error());
  const Status kind = check_device_kind(flags.device, recording.value()->store(), flags.file);
  if (!kind) return fail(kind.error());
  std::shared_ptr<const Recording> other;
  if (!flags.other.empty()) {
    Result<std::shared_ptr<const Recording>> opened =
        open_part(flags.other, terminal, {}, flags.part.reads_whole);
    if (!opened) return fail(opened.error());
    other = std::move(opened).value();
  }
  const Result<Advice> advice = [&] {
    ProgressLine progress("trying remedies", terminal.shows_progress);
    options.value().progress = [&](std::size_t done, std::size_t total) {
      progress.update(done, total);
    };
    return recording.value()->advise(options.value(), other.get());
  }();
  if (!advice) return fail(advice.error());
  if (flags.is_json) {
    print_json(advice_json(advice.value(), recording.value()->store()));
  } else {
    const Result<std::string> page =
        write_page(flags, advice.value(), recording.value()->store(), text_style(terminal));
    if (!page) return fail(page.error());
    print_out(page.value());
  }
  if (const int code = finish(*recording.value()); code != 0) return code;
  // The recording does not show whether the limit can be met.
  if (advice.value().fit && !advice.value().fit->refusal.empty())
    return exit_code(ErrorCode::bad_input);
  // The user asked for a limit that nothing meets.
  if (advice.value().fit && !advice.value().fit->is_found)
    return exit_code(ErrorCode::limit_exceeded);
  return 0;
}

}  // namespace

VerbAction prepare_advise(CLI::App& verb) {
  const auto flags = std::make_shared<AdviseFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_option("--fit", flags->fit, "Find the cheapest remedies that fit into SIZE")
      ->type_name("SIZE");
  verb.add_option("--with", flags->other, "A run with another batch size or sequence length")
      ->type_name("FILE");
  verb.add_option("--batch", flags->batch, "The number of samples in a recorded batch")
      ->type_name("SAMPLES");
  verb.add_option("--sequence", flags->sequence, "The number of tokens in a recorded sequence")
      ->type_name("TOKENS");
  verb.add_option("--device", flags->device, "Only this device, for example 0 or cuda:0")
      ->type_name("DEVICE");
  verb.add_option("--together", flags->together, "Also predict these remedies combined")
      ->type_name("A+B")
      ->expected(1);
  verb.add_option("--code", flags->codes, "Print only the code for this remedy, or for all")
      ->type_name("REMEDY|all")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_part_flags(verb, flags->part);
  verb.add_flag("--json", flags->is_json, "Print the advice as JSON");
  // Handled by the Python package, which runs the script.
  verb.footer(
      "To run a script with a remedy and compare the prediction with a measurement:\n"
      "  gpumemprof advise [FILE] --verify REMEDY -- SCRIPT [ARGUMENTS...]\n"
      "  gpumemprof advise --verify --help");
  return [flags](const Environment&) { return run_advise(*flags); };
}

}  // namespace gpumemprof::cli
