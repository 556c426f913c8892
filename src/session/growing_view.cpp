#include "session/growing_view.h"

#include <algorithm>
#include <filesystem>

#include "session/excerpt/long_file.h"

namespace gpumemprof {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(500);
// Between two readings pass at least this time, and so many times what the last one took: reading
// takes at most a twentieth of a core, however long the recording is.
constexpr auto kLeastPause = std::chrono::milliseconds(500);
constexpr int kPauseFactor = 19;
constexpr auto kLongestReading = std::chrono::minutes(10);
// A recorder that has something to write does so within a second.
constexpr double kQuietSeconds = 10;

// Only a recording of our own can grow, and it says when it has been closed.
bool is_closed_recording(const ViewedRun& run) {
  const std::optional<Ending>& ending = run.store().origin().ending;
  return !ending || ending->is_closed;
}

Clock::time_point time_of_change(const std::string& path) {
  const auto changed = last_change(path);
  if (!changed) return Clock::now();
  const auto age = std::filesystem::file_time_type::clock::now() - *changed;
  return Clock::now() - std::chrono::duration_cast<Clock::duration>(age);
}

}  // namespace

GrowingView::GrowingView(std::vector<ViewedRun> runs) {
  for (const ViewedRun& run : runs) {
    const std::uint64_t size = recording_bytes(run.path());
    seen_bytes_.push_back(size);
    files_.push_back({run, is_closed_recording(run), size, time_of_change(run.path())});
    if (run.indexed != nullptr) {
      files_.back().size_bytes = run.indexed->read_bytes();
      continue;
    }
    // It may have grown while it was read.
    if (Clock::now() - files_.back().changed < kLongestReading) files_.back().size_bytes = 0;
  }
  view_ = std::make_shared<View>(std::move(runs));
}

GrowingView::~GrowingView() = default;

void GrowingView::start() {
  if (std::ranges::all_of(files_, &File::is_closed)) {
    view_->prepare_in_background();
    return;
  }
  watching_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void GrowingView::watch(const std::stop_token& stop) {
  Clock::time_point next_reading = Clock::now() + kLeastPause;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wakes_.wait_for(lock, stop, kLookEvery, [] { return false; });
    if (stop.stop_requested() || !look() || Clock::now() < next_reading) continue;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    read_again();
    const Clock::time_point end = Clock::now();
    next_reading = end + std::max<Clock::duration>(kLeastPause, kPauseFactor * (end - begin));
    lock.lock();
  }
}

bool GrowingView::look() {
  bool has_grown = false;
  for (std::size_t index = 0; index < files_.size(); ++index) {
    File& file = files_[index];
    if (file.is_closed) continue;
    const std::uint64_t size = recording_bytes(file.run.path());
    if (size != seen_bytes_[index]) file.changed = Clock::now();
    seen_bytes_[index] = size;
    has_grown |= size != file.size_bytes;  // old chapters are removed, so it may also fall
  }
  return has_grown;
}

// Without the lock, except where it takes it: questions are answered meanwhile.
void GrowingView::read_again() {
  std::vector<File> files = files_;  // only this thread changes them
  std::vector<ViewedRun> runs;
  for (File& file : files) {
    const std::uint64_t size = recording_bytes(file.run.path());
    if (!file.is_closed && size != file.size_bytes) {
      file.size_bytes = size;
      // One that can no longer be read stays as it was.
      if (auto opened = open_viewed_run(file.run.path())) {
        file.run = std::move(opened).value();
        file.is_closed = is_closed_recording(file.run);
        if (file.run.indexed != nullptr) file.size_bytes = file.run.indexed->read_bytes();
      }
    }
    runs.push_back(file.run);
  }
  auto next = std::make_shared<View>(std::move(runs));
  std::shared_ptr<const View> gone;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  files_ = std::move(files);
  gone = std::exchange(previous_, std::exchange(view_, std::move(next)));
  ++generation_;
}

std::shared_ptr<const View> GrowingView::view(std::optional<std::uint64_t> generation) const {
  const std::scoped_lock lock(mutex_);
  if (generation && *generation + 1 == generation_ && previous_ != nullptr) return previous_;
  return view_;
}

std::string GrowingView::state_json() const {
  const std::scoped_lock lock(mutex_);
  std::string files;
  for (std::size_t index = 0; index < files_.size(); ++index) {
    const File& file = files_[index];
    const std::chrono::duration<double> unchanged = Clock::now() - file.changed;
    const char* state = file.is_closed                      ? "ended"
                        : unchanged.count() > kQuietSeconds ? "quiet"
                                                            : "recording";
    if (!files.empty()) files += ',';
    files += std::string(R"({"state":")") + state + R"(","unchanged_seconds":)" +
             std::to_string(std::max(0LL, static_cast<long long>(unchanged.count())));
    // A short one is read again at once.
    if (file.run.indexed != nullptr && !file.is_closed)
      files += R"(,"unread_bytes":)" +
               std::to_string(seen_bytes_[index] - std::min(seen_bytes_[index], file.size_bytes));
    files += "}";
  }
  return R"({"generation":)" + std::to_string(generation_) + R"(,"files":[)" + files + "]}";
}

}  // namespace gpumemprof
