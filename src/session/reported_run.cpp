#include "session/reported_run.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include "trace/reader.h"

namespace gpumemprof {
namespace {

// About four million events: whole, they take 300 MiB.
constexpr std::uint64_t kLongFileBytes = std::uint64_t{8} << 20U;

// For tests: windows of this many events, whatever the size of the file.
std::optional<std::uint32_t> forced_window() {
  const char* text = std::getenv("GPUMEMPROF_WINDOW_EVENTS");
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  std::uint32_t events = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), events);
  if (error != std::errc() || end != digits.data() + digits.size() || events == 0)
    return std::nullopt;
  return events;
}

std::optional<WindowSizes> window_sizes(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return std::nullopt;
  std::array<std::byte, 8> start{};
  const Result<std::size_t> read = file.value()->read(start);
  if (!read || !looks_like_trace(std::span(start).first(read.value()))) return std::nullopt;
  WindowSizes sizes;
  const std::optional<std::uint32_t> forced = forced_window();
  if (forced) sizes.events = *forced;
  if (!forced && file.value()->size_bytes() < kLongFileBytes) return std::nullopt;
  return sizes;
}

Error out_of_memory(const std::string& path) {
  return {ErrorCode::environment, "this machine does not have enough memory to open it", path,
          "open it on a machine with more memory"};
}

}  // namespace

Result<std::unique_ptr<ReportedRun>> ReportedRun::open(const std::string& path,
                                                       const OpenOptions& options) {
  std::unique_ptr<ReportedRun> run(new ReportedRun());
  run->path_ = path;
  if (const std::optional<WindowSizes> sizes = window_sizes(path)) {
    const auto passes = std::make_shared<std::uint64_t>(0);
    const auto deliver = [path, options, passes](EventSink& sink) -> Status {
      OpenOptions pass = options;
      if (options.progress) {
        pass.progress = [&options, done_before = *passes](std::uint64_t done, std::uint64_t total) {
          options.progress(done_before * total + done, 2 * total);
        };
      }
      ++*passes;
      const Result<std::unique_ptr<EventSource>> source = open_source(path, pass);
      if (!source) return source.error();
      return source.value()->deliver(sink);
    };
    try {
      run->windowed_ = std::make_unique<WindowedRun>(path, deliver, *sizes);
      const Result<bool> surveyed = run->windowed_->survey();
      if (!surveyed) return surveyed.error();
      if (surveyed.value()) return run;
    } catch (const std::bad_alloc&) {
      return out_of_memory(path);
    }
    run->windowed_.reset();
  }
  Result<std::shared_ptr<const Recording>> whole = Recording::open(path, options);
  if (!whole) return whole.error();
  run->whole_ = std::move(whole).value();
  return run;
}

Result<Overview> ReportedRun::overview(const OverviewOptions& options) {
  if (whole_) return whole_->overview(options);
  try {
    return windowed_->overview(options);
  } catch (const std::bad_alloc&) {
    return out_of_memory(path_);
  }
}

const Store& ReportedRun::store() const { return whole_ ? whole_->store() : windowed_->store(); }

}  // namespace gpumemprof
