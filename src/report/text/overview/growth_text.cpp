#include "report/text/overview/growth_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/bytes.h"
#include "report/leaks/leaks_sentence.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

std::string per_step(double bytes) {
  return format_bytes(static_cast<std::uint64_t>(std::llround(bytes)));
}

std::string whence(const Growth& growth, const Store& store) {
  if (!growth.line.is_none()) return ", allocated under " + place(store, growth.line);
  if (growth.lines.empty() || growth.lines.front().frame.is_none()) return {};
  const GrowingLine& most = growth.lines.front();
  return fmt::format(", {} of it from {}{}", format_bytes(most.grown_bytes),
                     most.is_backward ? "the backward of " : "", place(store, most.frame));
}

// The figures of `leaks`, which lists the same lines: two ways of counting would differ a little.
Growth as_leaks_say(const Growth& found, const DeviceLeaks& leaks, const Store& store) {
  Growth growth = found;
  growth.bytes_per_step = leaks.bytes_per_step;
  growth.last_step = leaks.last_step;
  growth.line = leaks.line;
  growth.since_step = leaks.last_step;
  growth.grown_bytes = 0;
  growth.lines.clear();
  for (const LeakSite& leak : leaks.leaks) {
    growth.since_step = std::min(growth.since_step, leak.first_step);
    growth.grown_bytes += leak.bytes;
    GrowingLine& line = growth.lines.emplace_back();
    if (!leak.stack.is_none()) line.frame = store.stacks().frame(leak.stack);
    line.is_backward = leak.is_backward;
    line.grown_bytes = leak.bytes;
  }
  return growth;
}

// With a capital letter.
std::string sentence_of(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

}  // namespace

std::string growth_sentence(const Growth& growth, const Store& store) {
  if (!growth.is_growing) return {};
  return fmt::format(
      "Memory grows from step to step: {} a step since step {}, {} by step {}{}. Later steps do "
      "not free it.",
      per_step(growth.bytes_per_step), growth.since_step, format_bytes(growth.grown_bytes),
      growth.last_step, whence(growth, store));
}

std::string growth_verdict(const Growth& growth, const std::optional<DeviceLeaks>& leaks,
                           const Store& store) {
  if (!leaks) return growth_sentence(growth, store);
  switch (leaks->verdict) {
    case LeakVerdict::too_short:
      return growth_sentence(growth, store);
    case LeakVerdict::clean:
    case LeakVerdict::warm_up:
      return {};
    case LeakVerdict::leak:
      if (growth.is_growing) return growth_sentence(as_leaks_say(growth, *leaks, store), store);
      break;
    case LeakVerdict::fragmentation:
    case LeakVerdict::outside_pool:
    case LeakVerdict::cycles:
      break;
  }
  return sentence_of(leak_verdict_sentence(*leaks, store));
}

std::vector<std::string> leaking_lines(const std::optional<DeviceLeaks>& leaks, const Store& store,
                                       std::size_t width) {
  constexpr std::size_t kShown = 5;
  constexpr std::size_t kLeastRoom = 20;
  if (!leaks) return {};
  const std::size_t shown = std::min(kShown, leaks->leaks.size());
  const std::string repetition(repetition_name(leaks->repetition));
  std::vector<std::string> lines;
  std::size_t widest = 0;
  for (std::size_t index = 0; index < shown; ++index) {
    const LeakSite& leak = leaks->leaks[index];
    const std::string rate = leak.bytes_per_step > 0
                                 ? per_step(leak.bytes_per_step) + " a " + repetition
                                 : "until collected";
    lines.push_back(fmt::format("{:>17}  {:>8} in {} since {} {}", rate, format_bytes(leak.bytes),
                                counted(leak.blocks, "block"), repetition,
                                grouped(leak.first_step)));
    widest = std::max(widest, lines.back().size() + 2);
  }
  for (std::size_t index = 0; index < shown; ++index) {
    const LeakSite& leak = leaks->leaks[index];
    FrameId frame;
    if (!leak.stack.is_none()) frame = store.stacks().frame(leak.stack);
    const std::string prefix = leak.is_backward ? "backward of " : "";
    const std::size_t used = widest + prefix.size();
    const std::size_t room = std::max(width - std::min(width, used), kLeastRoom);
    lines[index].resize(widest, ' ');
    lines[index] += frame.is_none() ? "no stack was recorded" : prefix + place(store, frame, room);
  }
  if (shown < leaks->leaks.size())
    lines.push_back(fmt::format("… and {}", counted(leaks->leaks.size() - shown, "more line")));
  return lines;
}

}  // namespace gpumemprof::text
