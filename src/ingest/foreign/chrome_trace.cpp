#include "ingest/foreign/chrome_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <streambuf>

#include "ingest/foreign/foreign_input.h"
#include "ingest/foreign/traced_memory.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::json;

// Some editors write it before a text.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
// Differences of two times fit into the same type.
constexpr std::int64_t kMostNanoseconds = std::int64_t{1} << 62;

// Lets the JSON library read from a ByteSource. A failure to read ends the text; error() says so.
// Names of functions may hold bytes that JSON does not allow, and the library would end there. No
// name that matters here has others than ASCII letters, so all others are replaced.
class InputBuffer final : public std::streambuf {
 public:
  InputBuffer(ByteSource& source, const Progress& progress, std::uint64_t total)
      : source_(source), progress_(progress), total_(total) {}

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 protected:
  int_type underflow() override {
    const Result<std::size_t> got = source_.read(std::as_writable_bytes(std::span(buffer_)));
    if (!got) error_ = got.error();
    if (!got || got.value() == 0) return traits_type::eof();
    simplify(std::span(buffer_).first(got.value()), done_ == 0);
    done_ += got.value();
    // Of a gzipped file more is read than its size.
    if (progress_) progress_(std::min(done_, total_), total_);
    setg(buffer_.data(), buffer_.data(), buffer_.data() + got.value());
    return traits_type::to_int_type(*gptr());
  }

 private:
  static void simplify(std::span<char> text, bool is_start) {
    constexpr unsigned char kFirstPrinted = 0x20;
    constexpr unsigned char kFirstBeyondAscii = 0x80;
    if (is_start && std::string_view(text.data(), text.size()).starts_with(kByteOrderMark))
      std::ranges::fill(text.first(kByteOrderMark.size()), ' ');
    for (char& letter : text) {
      const auto byte = static_cast<unsigned char>(letter);
      if (byte < kFirstPrinted) letter = ' ';
      if (byte >= kFirstBeyondAscii) letter = '?';
    }
  }

  static constexpr std::size_t kBufferBytes = std::size_t{1} << 18;
  ByteSource& source_;
  const Progress& progress_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::vector<char> buffer_ = std::vector<char>(kBufferBytes);
  std::optional<Error> error_;
};

std::optional<std::int64_t> within_range(std::int64_t nanoseconds) {
  if (nanoseconds < -kMostNanoseconds || nanoseconds > kMostNanoseconds) return std::nullopt;
  return nanoseconds;
}

// "1.5e3": exact enough for whatever writes so.
std::optional<std::int64_t> nanoseconds_of_power(std::string_view text) {
  constexpr double kPerMicrosecond = 1000;
  double microseconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), microseconds);
  const double value = microseconds * kPerMicrosecond;
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      std::abs(value) > static_cast<double>(kMostNanoseconds))
    return std::nullopt;
  return std::llround(value);
}

// "4082382873584.740", microseconds, as nanoseconds: a double would round it.
std::optional<std::int64_t> nanoseconds_in(std::string_view text) {
  constexpr std::int64_t kMost = kMostNanoseconds / 10;
  constexpr int kDigits = 3;
  if (text.find_first_of("eE") != std::string_view::npos) return nanoseconds_of_power(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  int fraction = -1;  // digits after the point; -1: before it
  for (const char letter : text) {
    if (letter == '.' && fraction < 0) {
      fraction = 0;
      continue;
    }
    if (letter < '0' || letter > '9' || value > kMost) return std::nullopt;
    if (fraction == kDigits) continue;
    if (fraction >= 0) ++fraction;
    value = 10 * value + (letter - '0');
  }
  for (int digit = std::max(fraction, 0); digit < kDigits; ++digit) {
    if (value > kMost) return std::nullopt;
    value *= 10;
  }
  return within_range(is_negative ? -value : value);
}

// Hears the JSON piece by piece and keeps only the memory events: a trace may have gigabytes of
// others.
class TraceListener final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t number) override {
    return field(number < 0 ? Field{number, std::nullopt, {}}
                            : Field{number, static_cast<std::uint64_t>(number), {}},
                 std::to_string(number));
  }
  bool number_unsigned(number_unsigned_t number) override {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    Field made{std::nullopt, number, {}};
    if (number <= kMost) made.integer = static_cast<std::int64_t>(number);
    return field(made, std::to_string(number));
  }
  bool number_float(number_float_t, const string_t& text) override { return field({}, text); }
  bool string(string_t& text) override {
    Field made;
    made.text = text.substr(0, kLongestName);
    return field(made, "");
  }
  bool binary(binary_t&) override { return value(); }

  bool start_object(std::size_t) override {
    if (depth_ == 0) is_object_ = true;
    if (is_among_events()) event_ = {};
    if (depth_ == events_depth_ + 1 && events_depth_ > 0) is_in_args_ = key_ == "args";
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (events_depth_ > 0 && depth_ == events_depth_ + 1) is_in_args_ = false;
    if (is_among_events()) finish_event();
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    const bool is_named = depth_ == 2 && is_object_ && key_ == "traceEvents";
    const bool is_list = depth_ == 1 || is_named;
    is_named_ |= is_named;
    if (is_list && events_depth_ == 0) events_depth_ = depth_;
    has_list_ |= is_list;
    return true;
  }
  bool end_array() override {
    if (depth_ == events_depth_) events_depth_ = 0;
    --depth_;
    return true;
  }
  bool key(string_t& text) override {
    key_ = text.substr(0, kLongestName);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    broken_at_ = position;
    return false;
  }

  [[nodiscard]] bool is_trace() const { return is_named_ || (has_list_ && events_ > 0); }
  [[nodiscard]] bool has_begun() const { return is_object_ || has_list_; }
  [[nodiscard]] std::optional<std::size_t> broken_at() const { return broken_at_; }
  std::vector<TracedBlock> take_blocks() { return std::move(blocks_); }
  [[nodiscard]] const std::vector<TracedStep>& steps() const { return steps_; }
  // Memory events without a size, an address or a time that can be.
  [[nodiscard]] std::uint64_t unreadable() const { return unreadable_; }

 private:
  static constexpr std::size_t kLongestName = 256;
  static constexpr std::size_t kMostSteps = 1'000'000;
  struct Field {
    std::optional<std::int64_t> integer;
    std::optional<std::uint64_t> unsigned_integer;
    std::string text;
  };
  struct TraceEvent {
    std::string name;
    std::string kind;
    std::optional<std::int64_t> time_ns;
    std::optional<std::int64_t> duration_ns;
    std::optional<std::int64_t> bytes;
    std::optional<std::uint64_t> address;
    std::optional<std::int64_t> device_type;
    std::optional<std::int64_t> device_id;
    std::optional<std::uint64_t> allocated;
    std::optional<std::uint64_t> reserved;
  };

  bool value() { return true; }
  [[nodiscard]] bool is_among_events() const {
    return events_depth_ > 0 && depth_ == events_depth_;
  }

  bool field(const Field& made, std::string_view number) {
    if (events_depth_ == 0) return true;
    if (depth_ == events_depth_ + 1) {
      if (key_ == "name") event_.name = made.text;
      if (key_ == "ph") event_.kind = made.text;
      if (key_ == "ts") event_.time_ns = nanoseconds_in(number);
      if (key_ == "dur") event_.duration_ns = nanoseconds_in(number);
    } else if (depth_ == events_depth_ + 2 && is_in_args_) {
      if (key_ == "Bytes") event_.bytes = made.integer;
      if (key_ == "Addr") event_.address = made.unsigned_integer;
      if (key_ == "Device Type") event_.device_type = made.integer;
      if (key_ == "Device Id") event_.device_id = made.integer;
      if (key_ == "Total Allocated") event_.allocated = made.unsigned_integer;
      if (key_ == "Total Reserved") event_.reserved = made.unsigned_integer;
    }
    return true;
  }

  void finish_event() {
    if (!event_.kind.empty()) ++events_;
    if (event_.name == "[memory]") {
      if (!event_.bytes || !event_.address || !event_.time_ns) {
        ++unreadable_;
        return;
      }
      TracedBlock block;
      block.time_ns = *event_.time_ns;
      block.bytes = *event_.bytes;
      block.address = *event_.address;
      block.device_type = event_.device_type.value_or(0);
      block.device_id = event_.device_id.value_or(0);
      block.total_allocated_bytes = event_.allocated;
      block.total_reserved_bytes = event_.reserved;
      blocks_.push_back(block);
    } else if (event_.name.starts_with("ProfilerStep#") && event_.kind == "X" && event_.time_ns &&
               event_.duration_ns && *event_.duration_ns >= 0 &&
               *event_.duration_ns <=
                   kMostNanoseconds - std::max<std::int64_t>(*event_.time_ns, 0) &&
               steps_.size() < kMostSteps) {
      steps_.push_back({event_.name, *event_.time_ns, *event_.time_ns + *event_.duration_ns});
    }
  }

  std::size_t depth_ = 0;
  std::size_t events_depth_ = 0;  // of the list of events; 0: outside of it
  bool is_object_ = false;
  bool has_list_ = false;
  bool is_named_ = false;  // that list has the name that it has in a trace
  bool is_in_args_ = false;
  std::string key_;
  TraceEvent event_;
  std::uint64_t events_ = 0;
  std::uint64_t unreadable_ = 0;
  std::vector<TracedBlock> blocks_;
  std::vector<TracedStep> steps_;
  std::optional<std::size_t> broken_at_;
};

}  // namespace

bool looks_like_json(std::span<const std::byte> start) {
  const auto mark = std::as_bytes(std::span(kByteOrderMark));
  if (start.size() > mark.size() && std::ranges::equal(start.first(mark.size()), mark))
    start = start.subspan(mark.size());
  for (const std::byte byte : start) {
    const auto letter = std::to_integer<char>(byte);
    if (letter == '{' || letter == '[') return true;
    if (letter != ' ' && letter != '\t' && letter != '\n' && letter != '\r') return false;
  }
  return false;
}

Result<std::unique_ptr<ChromeTrace>> ChromeTrace::open(const std::string& path, Progress progress) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open_input(path);
  if (!file) return file.error();
  const std::uint64_t size_bytes = file.value()->size_bytes();
  return std::unique_ptr<ChromeTrace>(
      new ChromeTrace(std::move(file).value(), size_bytes, path, std::move(progress)));
}

std::unique_ptr<ChromeTrace> ChromeTrace::from_bytes(std::span<const std::byte> bytes,
                                                     std::string name) {
  return std::unique_ptr<ChromeTrace>(
      new ChromeTrace(std::make_unique<BufferSource>(bytes), bytes.size(), std::move(name), {}));
}

Status ChromeTrace::deliver(EventSink& sink) {
  ForeignInput input(*source_, size_bytes_, least_limit_bytes_);
  InputBuffer buffer(input, progress_, size_bytes_);
  std::istream stream(&buffer);
  TraceListener listener;
  Json::sax_parse(stream, &listener);
  if (buffer.error()) return *buffer.error();
  const std::uint64_t offset = listener.broken_at().value_or(0);
  const std::string where = fmt::format("{}, byte {}", name_, offset);
  if (!listener.is_trace()) {
    return Error{ErrorCode::bad_input,
                 listener.broken_at() && !listener.has_begun()
                     ? "this is a text file, not a recording"
                     : "this is JSON, but no trace of a profiler",
                 where, "name a .gmp file, a PyTorch memory snapshot or a trace of torch.profiler"};
  }
  std::vector<TracedBlock> blocks = listener.take_blocks();
  if (blocks.empty() && listener.broken_at()) {
    return Error{ErrorCode::bad_input,
                 "this trace ends or is damaged here, and has no memory events before that", where,
                 "copy the file again, or export it again"};
  }
  if (blocks.empty()) {
    return Error{ErrorCode::bad_input,
                 listener.unreadable() > 0
                     ? "no memory event of this trace has a size, an address and a time"
                     : "this trace has no memory events",
                 where,
                 "make one with torch.profiler.profile(profile_memory=True) and "
                 "export_chrome_trace(path)"};
  }
  std::optional<CutPoint> cut;
  if (listener.broken_at())
    cut = CutPoint{offset, input.broken().empty() ? "the JSON ends or is damaged" : input.broken()};
  deliver_traced_memory(std::move(blocks), listener.steps(), cut, listener.unreadable(), sink);
  return Done{};
}

}  // namespace gpumemprof
