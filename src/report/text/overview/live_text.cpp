#include "report/text/overview/live_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "report/text/page.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

constexpr std::size_t kPlacesShown = 3;
constexpr std::size_t kMostNote = 24;  // columns that tags take from the line of code

class LiveTable : private Page {
 public:
  LiveTable(const Store& store, const TextStyle& style)
      : Page(style.width), store_(store), style_(style) {}

  std::string run(const DeviceOverview& device, const std::string& when) {
    line(fmt::format("  Live {}, by line of your code: {} in {}", when,
                     format_bytes(device.live.allocated_bytes),
                     counted(device.live.blocks, "block")));
    const std::size_t shown = std::min(style_.top, device.live_lines.size());
    for (std::size_t index = 0; index < shown; ++index) live_line(device, device.live_lines[index]);
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    for (std::size_t index = shown; index < device.live_lines.size(); ++index) {
      bytes += device.live_lines[index].line.bytes;
      blocks += device.live_lines[index].line.blocks;
    }
    if (bytes > 0) {
      row(percent(bytes, device.live.allocated_bytes), bytes, blocks,
          counted(device.live_lines.size() - shown, "more line"));
    }
    return std::move(out_);
  }

 private:
  static std::string figures(const std::string& share, std::uint64_t bytes, std::uint64_t blocks) {
    return fmt::format("  {} {} {}  ", right(share, 7), right(format_bytes(bytes), 9),
                       right(grouped(blocks), 7));
  }

  void row(const std::string& share, std::uint64_t bytes, std::uint64_t blocks,
           const std::string& what) {
    const std::string start = figures(share, bytes, blocks);
    line(start + shortened(what, style_.width - start.size()));
  }

  void place_row(const std::string& share, std::uint64_t bytes, std::uint64_t blocks,
                 const std::string& before, FrameId frame, const std::string& after = "") {
    const std::size_t used =
        figures(share, bytes, blocks).size() + before.size() + std::min(after.size(), kMostNote);
    row(share, bytes, blocks, before + place(store_, frame, style_.width - used) + after);
  }

  [[nodiscard]] std::string tag_note(const std::vector<StringId>& tags) const {
    std::string note;
    for (const StringId tag : tags) {
      note += note.empty() ? "  [" : ", ";
      note += store_.text(tag);
    }
    return note.empty() ? note : note + "]";
  }

  void live_line(const DeviceOverview& device, const LiveLine& live) {
    place_row(percent(live.line.bytes, device.live.allocated_bytes), live.line.bytes,
              live.line.blocks, live.line.is_backward ? "backward of " : "", live.line.frame,
              tag_note(live.tags));
    const bool is_its_own_place =
        live.places.size() == 1 && live.places[0].frame == live.line.frame;
    if (is_its_own_place) return;
    const std::size_t shown = std::min(kPlacesShown, live.places.size());
    for (std::size_t index = 0; index < shown; ++index) {
      const LivePlace& place = live.places[index];
      place_row("", place.bytes, place.blocks, "  in ", place.frame);
    }
    if (live.places.size() > shown) {
      std::uint64_t bytes = 0;
      std::uint64_t blocks = 0;
      for (std::size_t index = shown; index < live.places.size(); ++index) {
        bytes += live.places[index].bytes;
        blocks += live.places[index].blocks;
      }
      row("", bytes, blocks,
          fmt::format("  in {}", counted(live.places.size() - shown, "other place")));
    }
  }

  const Store& store_;
  const TextStyle& style_;
};

}  // namespace

std::string live_table(const DeviceOverview& device, const Store& store, const std::string& when,
                       const TextStyle& style) {
  return LiveTable(store, style).run(device, when);
}

}  // namespace gpumemprof::text
