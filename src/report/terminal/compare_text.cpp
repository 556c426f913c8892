#include "report/terminal/compare_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/printable.h"
#include "event/memory_source.h"
#include "report/text/heading/heading_text.h"
#include "report/text/page.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

std::string signed_bytes(std::uint64_t first, std::uint64_t second) {
  if (first == second) return "0 B";
  return second > first ? "+" + format_bytes(second - first) : "-" + format_bytes(first - second);
}

std::string signed_percent(std::uint64_t first, std::uint64_t second) {
  if (first == 0) return second == 0 ? "0.0 %" : "new";
  const double share = 100.0 * (static_cast<double>(second) - static_cast<double>(first)) /
                       static_cast<double>(first);
  return fmt::format("{:+.1f} %", share);
}

class CompareWriter : private text::Page {
 public:
  CompareWriter(const ShownComparison& shown, const TextStyle& style)
      : Page(style.width, style.has_color), shown_(shown), style_(style) {}

  std::string run() {
    const std::size_t width = style_.width - 3;
    out_ += "A: " + text::heading_text(*shown_.first.overview, *shown_.first.store, width);
    out_ += "B: " + text::heading_text(*shown_.second.overview, *shown_.second.store, width);
    for (const DeviceComparison& device : shown_.devices) {
      line("");
      verdict(device);
      table("by source", device.by_source);
      table("by line of your code", device.by_line);
      if (device.by_module) table("by module, each without those inside it", *device.by_module);
    }
    if (!shown_.limit.empty()) limit();
    line("\nNext: both in the browser, side by side\n  gpumemprof view " +
         text::quoted(shown_.first.overview->path) + " " +
         text::quoted(shown_.second.overview->path));
    return std::move(out_);
  }

 private:
  static std::string moment(const DeviceComparison::Side& side) {
    return side.moment.kind == AskedMoment::Kind::peak ? "peak" : "at the end";
  }

  void limit() {
    line("");
    // With its unit: a number alone is of bytes.
    const std::optional<std::uint64_t> bytes = parse_bytes(shown_.limit);
    const std::string most = bytes ? format_bytes(*bytes) : printable(shown_.limit);
    if (shown_.is_exceeded) {
      paragraph(fmt::format("B exceeds the limit: more than {} above A.", most), 0);
      return;
    }
    const std::string within = fmt::format("Within the limit: at most {} above A", most);
    paragraph(are_peaks_known(shown_.second)
                  ? within + "."
                  : within +
                        ", as far as B was recorded: its history is not complete, and its "
                        "peak may have been higher.",
              0);
  }

  void verdict(const DeviceComparison& device) {
    if (!device.first || !device.second) {
      const auto& there = device.first ? device.first : device.second;
      line(bold(fmt::format("{}: only in {}, {} {}", device.name, device.first ? "A" : "B",
                            moment(*there), format_bytes(there->allocated_bytes))));
      return;
    }
    const std::uint64_t first = device.first->allocated_bytes;
    const std::uint64_t second = device.second->allocated_bytes;
    const std::string heading = device.is_across_devices()
                                    ? device.first->device + " -> " + device.second->device
                                    : device.name;
    line(bold(fmt::format("{}: {} {} -> {}, {} ({})", heading, moment(*device.first),
                          format_bytes(first), format_bytes(second), signed_bytes(first, second),
                          signed_percent(first, second))));
    if (device.is_across_devices())
      paragraph(fmt::format("{} of A is compared with {} of B.", device.first->device,
                            device.second->device),
                2);
    if (device.first->moment.kind != device.second->moment.kind)
      paragraph(fmt::format("A is compared {}, B {}: one of them has no history, so its peak is "
                            "unknown.",
                            moment(*device.first), moment(*device.second)),
                2);
    const auto& held = device.first->peak_reserved_bytes;
    const auto& holds = device.second->peak_reserved_bytes;
    if (held && holds)
      paragraph(fmt::format("reserved at most {} -> {}, {} ({})", format_bytes(*held),
                            format_bytes(*holds), signed_bytes(*held, *holds),
                            signed_percent(*held, *holds)),
                2);
    for (const auto& [name, side] :
         {std::pair("A", &*device.first), std::pair("B", &*device.second)})
      if (!side->is_exact)
        paragraph(fmt::format("The figures of {} are inferred: its history is not complete.", name),
                  2);
  }

  void table(const std::string& title, const std::vector<ComparedGroup>& groups) {
    const auto unchanged =
        static_cast<std::size_t>(std::ranges::count_if(groups, [](const ComparedGroup& group) {
          return group.first_bytes == group.second_bytes;
        }));
    line(fmt::format("\n  {} {} {}  {}", text::right("change", 10), text::right("A", 9),
                     text::right("B", 9), title));
    std::size_t shown = 0;
    for (const ComparedGroup& group : groups) {
      if (group.first_bytes == group.second_bytes || shown == style_.top) break;
      row(group);
      ++shown;
    }
    rest(groups, shown, groups.size() - unchanged, "more");
    rest(groups, groups.size() - unchanged, groups.size(), "unchanged");
  }

  void rest(const std::vector<ComparedGroup>& groups, std::size_t from, std::size_t to,
            std::string_view word) {
    if (from >= to) return;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    for (std::size_t index = from; index < to; ++index) {
      first += groups[index].first_bytes;
      second += groups[index].second_bytes;
    }
    line(figures(first, second) + fmt::format("{} {}", text::grouped(to - from), word));
  }

  static std::string figures(std::uint64_t first, std::uint64_t second) {
    return fmt::format("  {} {} {}  ", text::right(signed_bytes(first, second), 10),
                       text::right(format_bytes(first), 9), text::right(format_bytes(second), 9));
  }

  void row(const ComparedGroup& group) {
    constexpr std::size_t kLeastPlace = 16;
    const std::string start = figures(group.first_bytes, group.second_bytes);
    line(start + named(group, std::max(style_.width, start.size() + kLeastPlace) - start.size()));
  }

  [[nodiscard]] std::string named(const ComparedGroup& group, std::size_t width) const {
    if (!group.name.empty()) {
      for (const MemorySourceInfo& info : kMemorySourceTable) {
        if (info.name == group.name) return std::string(info.display_name);
      }
      return text::shortened(printable(group.name), width);
    }
    const std::string before = group.is_backward ? "backward of " : "";
    const Store& store = *(group.is_of_first ? shown_.first : shown_.second).store;
    return before + text::place(store, group.frame, width - before.size());
  }

  const ShownComparison& shown_;
  const TextStyle& style_;
};

}  // namespace

std::string compare_text(const ShownComparison& shown, const TextStyle& style) {
  return printable_page(CompareWriter(shown, style).run(), style.has_color);
}

}  // namespace gpumemprof
