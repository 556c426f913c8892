#include "session/ranks/summary_file.h"

#include <charconv>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

namespace gpumemprof {
namespace {

// Most summaries have all that is needed in the first of these.
constexpr std::size_t kSummaryChunkBytes = std::size_t{64} << 10;
// Columns of a few million steps.
constexpr std::size_t kMostSummaryLineBytes = std::size_t{64} << 20;
constexpr std::string_view kSummaryStart = "{\"format\":\"gpumemprof rank summary\",";

// The columns of a device that are needed, in the order in which they are written.
constexpr std::string_view kStepColumn = "\"column\":\"step\",\"differences\":[";
constexpr std::string_view kPeakColumn = "\"column\":\"peak_bytes\",\"differences\":[";

std::size_t count_devices(std::string_view head) {
  // Inside of a text, the quotation marks would have a backslash.
  constexpr std::string_view kDevice = "{\"device\":\"";
  std::size_t count = 0;
  for (std::size_t at = head.find(kDevice); at != std::string_view::npos;
       at = head.find(kDevice, at + kDevice.size()))
    ++count;
  return count;
}

bool skip(std::string_view& line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return false;
  line.remove_prefix(prefix.size());
  return true;
}

// "1,2,-3]}": differences; every one but the first from the value before.
bool read_differences(std::string_view line, std::vector<std::int64_t>& values) {
  std::int64_t value = 0;
  if (line == "]}") return true;
  const char* at = line.data();
  const char* const end = line.data() + line.size();
  while (true) {
    std::int64_t difference = 0;
    const std::from_chars_result parsed = std::from_chars(at, end, difference);
    if (parsed.ec != std::errc() || parsed.ptr == end) return false;
    if (__builtin_add_overflow(value, difference, &value)) return false;
    values.push_back(value);
    at = parsed.ptr;
    if (*at == ',') {
      ++at;
      continue;
    }
    return std::string_view(at, static_cast<std::size_t>(end - at)) == "]}";
  }
}

// Takes whole lines as they come.
class SummaryLines {
 public:
  enum class State : std::uint8_t { needs_more, complete, unknown };

  State take(std::string_view line) {
    if (file_.head.empty()) {
      if (!line.starts_with(kSummaryStart)) return State::unknown;
      file_.head = line;
      file_.devices.resize(count_devices(line));
      return file_.devices.empty() ? State::unknown : State::needs_more;
    }
    const std::string_view whole = line;
    SummaryOfDevice& device = file_.devices[at_];
    if (!skip(line, "{\"device\":" + std::to_string(at_) + ",")) {
      // Further columns of the device before.
      const bool is_before =
          at_ > 0 && skip(line, "{\"device\":" + std::to_string(at_ - 1) + ",\"column\":");
      return is_before ? State::needs_more : State::unknown;
    }
    if (line.starts_with("\"sites\":") && device.held.empty()) {
      device.held = whole;
      return State::needs_more;
    }
    if (skip(line, kStepColumn) && device.steps.empty())
      return read_differences(line, device.steps) ? State::needs_more : State::unknown;
    if (!skip(line, kPeakColumn) || device.held.empty()) return State::unknown;
    device.peaks.reserve(device.steps.size());
    if (!read_differences(line, device.peaks) || device.peaks.size() != device.steps.size())
      return State::unknown;
    ++at_;
    return at_ == file_.devices.size() ? State::complete : State::needs_more;
  }

  // Whether this may be the start of the line that comes next.
  [[nodiscard]] bool may_go_on_with(std::string_view start) const {
    return start.size() <= kMostSummaryLineBytes &&
           (!file_.head.empty() || start.starts_with(kSummaryStart.substr(0, start.size())) ||
            start.starts_with(kSummaryStart));
  }

  SummaryFile finish() { return std::move(file_); }

 private:
  SummaryFile file_;
  std::size_t at_ = 0;  // the device whose lines come next
};

}  // namespace

std::optional<SummaryFile> parse_summary(std::string_view text) {
  SummaryLines lines;
  while (true) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const SummaryLines::State state = lines.take(text.substr(0, end));
    if (state == SummaryLines::State::complete) return lines.finish();
    if (state == SummaryLines::State::unknown) return std::nullopt;
    text.remove_prefix(end + 1);
  }
}

std::optional<SummaryFile> read_summary(ByteSource& source) {
  SummaryLines lines;
  std::string buffer;
  std::size_t begin = 0;     // of the line that comes next
  std::size_t searched = 0;  // from there to here, no line ends
  while (true) {
    const std::size_t end = buffer.find('\n', searched);
    if (end != std::string::npos) {
      const SummaryLines::State state =
          lines.take(std::string_view(buffer).substr(begin, end - begin));
      if (state == SummaryLines::State::complete) return lines.finish();
      if (state == SummaryLines::State::unknown) return std::nullopt;
      begin = searched = end + 1;
      continue;
    }
    buffer.erase(0, begin);
    begin = 0;
    searched = buffer.size();
    if (!lines.may_go_on_with(buffer)) return std::nullopt;
    buffer.resize(searched + kSummaryChunkBytes);
    const Result<std::size_t> count =
        source.read(std::as_writable_bytes(std::span(buffer).subspan(searched)));
    if (!count || count.value() == 0) return std::nullopt;
    buffer.resize(searched + count.value());
  }
}

std::optional<SummaryFile> read_summary_file(const std::string& path) {
  const Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  return file ? read_summary(*file.value()) : std::nullopt;
}

}  // namespace gpumemprof
