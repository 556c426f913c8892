#include "trace/chapters/summary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <span>

namespace gpumemprof {
namespace {

template <std::size_t N>
void put_line(std::string& out, std::string_view name, const std::array<std::int64_t, N>& numbers) {
  out += name;
  for (const std::int64_t number : numbers) out.append(" ").append(std::to_string(number));
  out += '\n';
}

std::int64_t number(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }

// The numbers of a line with this name; nothing if it is another, or has too few.
template <std::size_t N>
std::optional<std::array<std::int64_t, N>> take_line(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || line.size() <= name.size()) return std::nullopt;
  std::array<std::int64_t, N> numbers{};
  const char* at = line.data() + name.size();
  const char* end = line.data() + line.size();
  for (std::int64_t& one : numbers) {
    if (at == end || *at != ' ') return std::nullopt;
    const auto [next, problem] = std::from_chars(at + 1, end, one);
    if (problem != std::errc()) return std::nullopt;
    at = next;
  }
  return at == end ? std::optional(numbers) : std::nullopt;
}

std::uint64_t bytes(std::int64_t number) { return static_cast<std::uint64_t>(number); }
std::uint32_t small(std::int64_t number) { return static_cast<std::uint32_t>(number); }

}  // namespace

std::string summary_lines(const ChapterFigures& chapter, const std::vector<StepSummary>& steps) {
  std::string out;
  for (const StepSummary& step : steps) {
    put_line<8>(
        out, "step",
        {step.first, step.last, step.device, number(step.peak_bytes), number(step.floor_bytes),
         number(step.reserved_bytes), number(step.end_bytes), number(step.events)});
  }
  for (const ChapterFigures::Device& device : chapter.devices) {
    put_line<6>(
        out, "device",
        {chapter.number, device.device, number(device.peak_allocated_bytes),
         number(device.peak_reserved_bytes), number(device.floor_bytes), number(device.end_bytes)});
  }
  put_line<8>(
      out, "chapter",
      {chapter.number, chapter.first_time_ns, chapter.last_time_ns, number(chapter.events),
       number(chapter.failures), number(chapter.retries), chapter.first_step, chapter.last_step});
  return out;
}

FolderSummary read_summary(std::string_view text) {
  FolderSummary summary;
  if (!text.starts_with(kSummaryTitle)) return summary;
  std::vector<ChapterFigures::Device> devices;
  std::vector<StepSummary> steps;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (const auto step = take_line<8>(line, "step")) {
      const auto& [first, last, device, peak, floor, reserved, left, events] = *step;
      steps.push_back({small(first), small(last), static_cast<DeviceIndex>(device), bytes(peak),
                       bytes(floor), bytes(reserved), bytes(left), bytes(events)});
    } else if (const auto device = take_line<6>(line, "device")) {
      const auto& [chapter, index, peak, reserved, floor, left] = *device;
      devices.push_back({static_cast<DeviceIndex>(index), bytes(peak), bytes(reserved),
                         bytes(floor), bytes(left)});
    } else if (const auto chapter = take_line<8>(line, "chapter")) {
      const auto& [at, first_ns, last_ns, events, failures, retries, first, last] = *chapter;
      ChapterFigures figures;
      figures.number = small(at);
      figures.has_figures = true;
      figures.first_time_ns = first_ns;
      figures.last_time_ns = last_ns;
      figures.events = bytes(events);
      figures.failures = bytes(failures);
      figures.retries = bytes(retries);
      figures.first_step = small(first);
      figures.last_step = small(last);
      figures.devices = std::move(devices);
      devices.clear();
      summary.chapters.push_back(std::move(figures));
      summary.steps.insert(summary.steps.end(), steps.begin(), steps.end());
      steps.clear();
    }
  }
  return summary;
}

void thin_out(std::vector<StepSummary>& steps) {
  std::map<DeviceIndex, std::size_t> open;  // the row that the device's next step joins
  std::vector<StepSummary> kept;
  for (const StepSummary& step : steps) {
    const auto found = open.find(step.device);
    if (found == open.end()) {
      open[step.device] = kept.size();
      kept.push_back(step);
      continue;
    }
    StepSummary& mine = kept[found->second];
    open.erase(found);
    mine.last = step.last;
    mine.peak_bytes = std::max(mine.peak_bytes, step.peak_bytes);
    mine.floor_bytes = std::min(mine.floor_bytes, step.floor_bytes);
    mine.reserved_bytes = std::max(mine.reserved_bytes, step.reserved_bytes);
    mine.end_bytes = step.end_bytes;
    mine.events += step.events;
  }
  steps = std::move(kept);
}

}  // namespace gpumemprof
