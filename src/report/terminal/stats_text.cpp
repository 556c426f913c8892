#include "report/terminal/stats_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/timeline/grouping.h"
#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/heading/heading_text.h"
#include "report/text/page.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kBarWidth = 24;

std::string bar(std::uint64_t part, std::uint64_t most) {
  if (most == 0) return "";
  const auto full = static_cast<std::size_t>(static_cast<double>(kBarWidth) *
                                             static_cast<double>(part) / static_cast<double>(most));
  std::string text;
  for (std::size_t column = 0; column < std::min(full, kBarWidth); ++column) text += "█";
  return text.empty() && part > 0 ? "▏" : text;
}

std::string lifetime_name(std::int64_t nanoseconds) {
  return nanoseconds == kUnknownTime ? "-" : text::duration(nanoseconds);
}

class StatsWriter : private text::Page {
 public:
  StatsWriter(const RunCounts& counts, const TextStyle& style)
      : Page(style.width, style.has_color), counts_(counts), style_(style) {}

  std::string run() {
    out_ += text::heading_text(counts_.overview, counts_.store, style_.width);
    if (counts_.is_in_windows)
      paragraph("It is long, and was read in windows; every allocation is counted.", 0);
    for (const DeviceOverview& device : counts_.overview.devices) {
      line("");
      verdict(device);
      const DeviceStats* const stats = counts_.of(device.device);
      if (stats == nullptr) continue;
      sizes(*stats);
      lifetimes(*stats);
      lines(*stats);
    }
    if (!counts_.overview.devices.empty())
      line("\nNext: what is live at the peak, by call stack\n  gpumemprof tree " +
           text::quoted(counts_.overview.path));
    return std::move(out_);
  }

 private:
  void verdict(const DeviceOverview& device) {
    const DeviceStats* const stats = counts_.of(device.device);
    if (stats == nullptr) {
      line(bold(device.name + ": no allocation"));
      return;
    }
    line(bold(fmt::format("{}: {}, {} in all", device.name,
                          text::counted(stats->made.count, "allocation"),
                          format_bytes(stats->made.bytes))));
    std::string text =
        fmt::format("{} freed, {} live at the end ({})", text::grouped(stats->freed.count),
                    text::grouped(stats->not_freed.count), format_bytes(stats->not_freed.bytes));
    if (stats->from_before.count > 0)
      text += fmt::format("; {} ({}) {} there before the recording began",
                          text::counted(stats->from_before.count, "block"),
                          format_bytes(stats->from_before.bytes),
                          stats->from_before.count == 1 ? "was" : "were");
    paragraph(text, 2);
    if (stats->made.count > 0)
      paragraph(fmt::format("mean {}; {} were requested, the rest is rounding",
                            format_bytes(stats->made.bytes / stats->made.count),
                            format_bytes(stats->requested_bytes)),
                2);
    if (device.replay.has_history)
      paragraph(
          fmt::format("peak {} allocated, {}", format_bytes(device.replay.peak.allocated_bytes),
                      text::when_text(device.peak_when, device.events, counts_.store)),
          2);
  }

  void histogram_row(const std::string& name, const CountedBytes& bin, std::uint64_t most) {
    line(fmt::format("  {} {} {}  {}", text::right(text::grouped(bin.count), 11),
                     text::right(format_bytes(bin.bytes), 9), text::left(name, 20),
                     bar(bin.count, most)));
  }

  void sizes(const DeviceStats& stats) {
    line("\n        count     bytes by size of the block");
    std::uint64_t most = 0;
    for (const auto& [size, bin] : stats.by_size) most = std::max(most, bin.count);
    for (const auto& [size, bin] : stats.by_size) histogram_row(size_class_name(size), bin, most);
  }

  void lifetimes(const DeviceStats& stats) {
    line("\n        count     bytes by lifetime");
    std::uint64_t most = std::max(stats.not_freed.count, stats.untimed.count);
    for (const LifetimeBin& bin : stats.lifetimes) most = std::max(most, bin.freed.count);
    std::int64_t last_below = kUnknownTime;
    for (const LifetimeBin& bin : stats.lifetimes) {
      const bool is_last = bin.below_ns == kUnknownTime;
      if (bin.freed.count > 0)
        histogram_row(is_last ? text::duration(last_below) + " or longer"
                              : "below " + text::duration(bin.below_ns),
                      bin.freed, most);
      last_below = bin.below_ns;
    }
    if (stats.untimed.count > 0) histogram_row("freed, time unknown", stats.untimed, most);
    if (stats.not_freed.count > 0) histogram_row("live at the end", stats.not_freed, most);
  }

  void lines(const DeviceStats& stats) {
    table("by line, most bytes first", largest_lines(stats, style_.top));
    table("by line, most often first", busiest_lines(stats, style_.top));
    if (stats.lines.size() > style_.top)
      paragraph(fmt::format("{} in all: gpumemprof table shows and sorts them.",
                            text::counted(stats.lines.size(), "line")),
                2);
  }

  void table(const std::string& title, const std::vector<LineStats>& lines) {
    if (lines.empty()) return;
    line("\n        count     bytes   largest mean life " + title);
    for (const LineStats& one : lines) {
      const std::string start =
          fmt::format("  {} {} {} {} {}", text::right(text::grouped(one.made.count), 11),
                      text::right(format_bytes(one.made.bytes), 9),
                      text::right(format_bytes(one.largest_bytes), 9),
                      text::right(lifetime_name(one.mean_lifetime_ns()), 9),
                      one.is_backward ? "backward of " : "");
      const std::size_t used = text::columns(start);
      line(start +
           text::place(counts_.store, one.frame, std::max(style_.width, used + kBarWidth) - used));
    }
  }

  const RunCounts& counts_;
  const TextStyle& style_;
};

template <typename Key>
std::vector<LineStats> first_lines(const DeviceStats& stats, std::size_t most, Key key) {
  std::vector<LineStats> lines = stats.lines;
  std::ranges::stable_sort(lines, [&](const LineStats& a, const LineStats& b) {
    return key(a) == key(b) ? a.made.bytes > b.made.bytes : key(a) > key(b);
  });
  if (lines.size() > most) lines.resize(most);
  return lines;
}

}  // namespace

const DeviceStats* RunCounts::of(DeviceIndex device) const {
  const auto found = std::ranges::find(devices, device, &DeviceStats::device);
  return found == devices.end() ? nullptr : &*found;
}

std::vector<LineStats> largest_lines(const DeviceStats& stats, std::size_t most) {
  return first_lines(stats, most, [](const LineStats& line) { return line.made.bytes; });
}

std::vector<LineStats> busiest_lines(const DeviceStats& stats, std::size_t most) {
  return first_lines(stats, most, [](const LineStats& line) { return line.made.count; });
}

std::string stats_text(const RunCounts& counts, const TextStyle& style) {
  return printable_page(StatsWriter(counts, style).run(), style.has_color);
}

}  // namespace gpumemprof
