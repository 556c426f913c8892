#include "report/terminal/table_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/code/user_frame.h"
#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/heading/heading_text.h"
#include "report/text/page.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kLeastTablePlace = 16;

class TableWriter : private text::Page {
 public:
  TableWriter(const ShownTable& table, const TextStyle& style)
      : Page(style.width, style.has_color), table_(table), style_(style) {}

  std::string run() {
    out_ += text::heading_text(table_.overview, table_.store, style_.width);
    if (table_.is_in_windows)
      paragraph("It is long, and was read in windows; all of it was searched.", 0);
    line("");
    headline(what_matches());
    has_devices_ = table_.overview.devices.size() > 1;
    if (table_.is_by_line && !table_.lines.empty()) lines();
    if (!table_.is_by_line && !table_.rows.empty()) rows();
    next();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string moment_name() const {
    return table_.overview.devices.empty() ? "at the peak"
                                           : text::asked_text(table_.overview.devices.front());
  }

  [[nodiscard]] std::string what_matches() const {
    std::string text =
        fmt::format("{}, {} in all", text::counted(table_.matching.count, "allocation"),
                    format_bytes(table_.matching.bytes));
    if (table_.is_by_line) text += fmt::format(", by {}", text::counted(table_.matches, "line"));
    if (table_.is_at_moment) text += ", live " + moment_name();
    if (!table_.filter.empty()) text += fmt::format(", matching '{}'", printable(table_.filter));
    const std::size_t shown = table_.is_by_line ? table_.lines.size() : table_.rows.size();
    if (shown > 0 && shown < table_.matches)
      text += fmt::format("; the first {} by {}", text::grouped(shown), table_.order);
    return text + ".";
  }

  [[nodiscard]] std::string device_column(DeviceIndex device) const {
    return has_devices_ ? text::right(table_.store.device_name(device), 8) : "";
  }

  void placed(const std::string& start, bool is_backward, FrameId frame) {
    const std::string before = start + (is_backward ? "backward of " : "");
    const std::size_t used = text::columns(before);
    line(before +
         text::place(table_.store, frame, std::max(style_.width, used + kLeastTablePlace) - used));
  }

  static std::string life(std::int64_t nanoseconds) {
    return nanoseconds == kUnknownTime ? "-" : text::duration(nanoseconds);
  }

  void lines() {
    const bool is_end = !table_.overview.devices.empty() &&
                        table_.overview.devices.front().asked.kind != AskedMoment::Kind::peak;
    line(fmt::format("\n{}{}     total    count   largest mean life  line",
                     has_devices_ ? "  device" : "", is_end ? "  live then" : "  live@peak"));
    for (const ShownLine& one : table_.lines) {
      const LineStats& stats = one.stats;
      placed(fmt::format("{}  {} {} {} {} {}  ", device_column(one.device),
                         text::right(format_bytes(stats.at_moment.bytes), 9),
                         text::right(format_bytes(stats.made.bytes), 9),
                         text::right(text::grouped(stats.made.count), 8),
                         text::right(format_bytes(stats.largest_bytes), 9),
                         text::right(life(stats.mean_lifetime_ns()), 9)),
             stats.is_backward, stats.frame);
    }
  }

  void rows() {
    line(fmt::format("\n{}       size       event  step  lifetime  source           line",
                     has_devices_ ? "  device" : ""));
    for (const AllocationRow& row : table_.rows) {
      const StackId part = row.stack.is_none() ? StackId() : line_part(table_.store, row.stack);
      const std::string event =
          row.birth == kNoEvent ? std::string("before") : text::grouped(row.birth);
      const std::string lifetime = row.free == kNoEvent ? "live" : life(row.lifetime_ns);
      const std::string_view source =
          row.source ? memory_source_info(*row.source).display_name : std::string_view("-");
      placed(fmt::format("{}  {} {} {} {}  {}  ", device_column(row.device),
                         text::right(format_bytes(row.size_bytes), 9), text::right(event, 11),
                         text::right(row.step == 0 ? "-" : text::grouped(row.step), 5),
                         text::right(lifetime, 9),
                         text::left(text::shortened(std::string(source), 15), 15)),
             row.is_backward, part.is_none() ? FrameId() : table_.store.stacks().frame(part));
      if (const std::string note = names(row); !note.empty())
        line("             " + text::shortened(note, style_.width - 13));
    }
  }

  // What the program itself calls it.
  [[nodiscard]] std::string names(const AllocationRow& row) const {
    std::string note;
    if (!row.name.is_none()) note = printable(table_.store.text(row.name));
    if (!row.tag.is_none())
      note += fmt::format("{}[{}]", note.empty() ? "" : " ", printable(table_.store.text(row.tag)));
    return note;
  }

  void next() {
    const std::string file = text::quoted(table_.overview.path);
    if (!table_.is_by_line)
      line("\nNext: the call stacks of what is live at the peak\n  gpumemprof tree " + file);
    else if (const std::string known = line_with_place(); !known.empty())
      line("\nNext: single allocations, for example the largest of one line\n  gpumemprof table " +
           file + " --by allocation --filter " + known);
    else if (table_.matches > 0)
      line("\nNext: single allocations\n  gpumemprof table " + file + " --by allocation");
    else if (!table_.filter.empty())
      line("\nNext: what a filter can find\n  gpumemprof table " + file);
  }

  // FILE:LINE of the first line whose place is known; empty if there is none.
  [[nodiscard]] std::string line_with_place() const {
    for (const ShownLine& one : table_.lines) {
      if (one.stats.frame.is_none()) continue;
      const Frame& frame = table_.store.frame(one.stats.frame);
      return text::quoted(fmt::format(
          "{}:{}", text::file_name(std::string(table_.store.text(frame.file))), frame.line));
    }
    return "";
  }

  const ShownTable& table_;
  const TextStyle& style_;
  bool has_devices_ = false;
};

}  // namespace

std::string table_text(const ShownTable& table, const TextStyle& style) {
  return printable_page(TableWriter(table, style).run(), style.has_color);
}

}  // namespace gpumemprof
