#include "report/text/overview/free_memory_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "report/text/page.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

class Section : private Page {
 public:
  Section(const DeviceOverview& device, const Store& store, const TextStyle& style)
      : Page(style.width), device_(device), store_(store), style_(style) {}

  std::string run(const std::string& moment) {
    const FreeMemory& memory = device_.memory;
    const std::uint64_t unused = memory.free_bytes + memory.waiting_bytes;
    line(fmt::format("  Reserved but not allocated {}: {} of {} ({})", moment, format_bytes(unused),
                     format_bytes(memory.reserved_bytes), percent(unused, memory.reserved_bytes)));
    if (memory.hole_bytes > 0) {
      share(memory.hole_bytes,
            fmt::format("in {} between live blocks{}", counted(memory.holes, "gap"),
                        largest(memory.holes, memory.largest_hole_bytes)));
    }
    pins();
    if (memory.whole_segment_bytes > 0) {
      share(memory.whole_segment_bytes,
            fmt::format("cached: {}; empty_cache() returns {}",
                        counted(memory.whole_segments, "whole free segment"),
                        memory.whole_segments == 1 ? "it" : "them"));
    }
    if (memory.waiting_bytes > 0)
      share(memory.waiting_bytes, "freed, still in use by another stream");
    if (memory.private_pool_bytes > 0) {
      share(memory.private_pool_bytes, "usable only by the CUDA graph or pool that owns it");
    }
    if (memory.streams.size() > 1) streams();
    if (memory.rounding_bytes > 0) rounding();
    return std::move(out_);
  }

 private:
  static std::string largest(std::uint64_t count, std::uint64_t bytes) {
    return count == 1 ? "" : fmt::format(", the largest {}", format_bytes(bytes));
  }

  // What keeps the gaps from being returned: the oldest block in each segment.
  void pins() {
    constexpr std::size_t kLinesShown = 2;
    const std::vector<PinningLine>& lines = device_.pins.lines;
    for (std::size_t index = 0; index < std::min(kLinesShown, lines.size()); ++index) {
      const PinningLine& pin = lines[index];
      const std::string what = fmt::format(
          "  {} pinned by {} from ", counted(pin.segments, "segment"), format_bytes(pin.pin_bytes));
      const std::size_t used = kFigures + what.size();
      share(pin.free_bytes,
            what + place(store_, pin.frame, style_.width - std::min(style_.width, used)));
    }
  }

  // A stream's free blocks cannot serve another stream.
  void streams() {
    constexpr std::size_t kStreamsShown = 4;
    std::size_t shown = 0;
    for (const StreamShare& stream : device_.memory.streams) {
      if (stream.free_bytes == 0 || ++shown > kStreamsShown) continue;
      const std::uint64_t handle = store_.stream_handle(stream.stream);
      share(stream.free_bytes,
            fmt::format("usable only by {}, largest piece {}",
                        handle == 0 ? "the default stream" : fmt::format("stream 0x{:x}", handle),
                        format_bytes(stream.largest_free_bytes)));
    }
  }

  void rounding() {
    const FreeMemory& memory = device_.memory;
    share(
        memory.rounding_bytes,
        fmt::format("also rounding: {} of live memory",
                    percent(memory.rounding_bytes, memory.allocated_bytes + memory.waiting_bytes)));
  }

  void share(std::uint64_t bytes, const std::string& what) {
    line(right(format_bytes(bytes), kFigures - 2) + "  " + what);
  }

  static constexpr std::size_t kFigures = 16;  // bytes, with the blanks around them
  const DeviceOverview& device_;
  const Store& store_;
  const TextStyle& style_;
};

}  // namespace

std::string free_memory_section(const DeviceOverview& device, const Store& store,
                                const std::string& moment, const TextStyle& style) {
  return Section(device, store, style).run(moment);
}

}  // namespace gpumemprof::text
