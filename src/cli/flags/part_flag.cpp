#include "cli/flags/part_flag.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <string_view>

namespace gpumemprof::cli {
namespace {

std::optional<std::uint32_t> parse_one(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<AskedPart> parse_range(const std::string& text, const std::string& flag,
                              AskedPart::Kind kind) {
  const std::size_t colon = text.find(':');
  const std::string_view all = text;
  const auto first = parse_one(all.substr(0, colon));
  const auto last = colon == std::string::npos ? std::nullopt : parse_one(all.substr(colon + 1));
  if (!first || !last)
    return Error{ErrorCode::usage, flag + " takes two numbers such as 3:5, not '" + text + "'", "",
                 "try " + flag + " 3:5"};
  return AskedPart{kind, *first, *last, {}};
}

}  // namespace

void add_part_flags(CLI::App& verb, PartFlags& flags) {
  verb.add_option("--steps", flags.steps, "Only steps A to B")->type_name("A:B");
  verb.add_option("--events", flags.events, "Only events A up to B, without B")->type_name("A:B");
  verb.add_flag("--whole", flags.reads_whole, "Read all of a long recording, in as much memory");
}

Result<std::optional<AskedPart>> parse_part(const PartFlags& flags,
                                            std::optional<DeviceIndex> device) {
  const bool has_events = !flags.events.empty();
  const bool has_steps = !flags.steps.empty();
  if ((has_events && has_steps) || ((has_events || has_steps) && flags.reads_whole))
    return Error{ErrorCode::usage, "only one of --steps, --events and --whole can be given", "",
                 "leave the others out"};
  if (!has_events && !has_steps) return std::optional<AskedPart>();
  Result<AskedPart> part = !has_events
                               ? parse_range(flags.steps, "--steps", AskedPart::Kind::steps)
                               : parse_range(flags.events, "--events", AskedPart::Kind::events);
  if (!part) return part.error();
  part.value().device = device;
  return std::optional(part.value());
}

}  // namespace gpumemprof::cli
