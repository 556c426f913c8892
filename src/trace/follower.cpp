#include "trace/follower.h"

namespace gpumemprof {
namespace {

// For what a recording defines (strings, stacks, labels): a forged one must not exhaust the
// machine.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

}  // namespace

Result<std::unique_ptr<TraceFollower>> TraceFollower::open(const std::string& path,
                                                           EventSink& sink) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  const Result<int> version = trace::read_file_header(*file.value(), path);
  if (!version) return version.error();
  return std::unique_ptr<TraceFollower>(
      new TraceFollower(std::move(file).value(), version.value(), path, sink));
}

TraceFollower::TraceFollower(std::unique_ptr<FileSource> file, int version, std::string path,
                             EventSink& sink)
    : file_(std::move(file)),
      path_(std::move(path)),
      delivery_(*file_, version, sink, kMostBytes, trace::Delivery::SinkKeeps::definitions) {}

Result<TraceFollower::State> TraceFollower::read_more(std::uint64_t most_bytes) {
  const auto refuse = [&](std::string message, std::string hint) {
    return Error{ErrorCode::bad_input, std::move(message),
                 path_ + ", byte " + std::to_string(delivery_.byte_offset()), std::move(hint)};
  };
  if (file_->current_size_bytes() < delivery_.byte_offset())
    return refuse("the recording became shorter while it was followed", "follow it again");
  const std::uint64_t first = delivery_.byte_offset();
  while (delivery_.byte_offset() - first < most_bytes) {
    switch (delivery_.step()) {
      case trace::Delivery::Outcome::more:
        continue;
      case trace::Delivery::Outcome::ended:
        return State::ended;
      case trace::Delivery::Outcome::damaged:
        return refuse(delivery_.cut()->reason, "what came before it was read");
      case trace::Delivery::Outcome::unfinished:
      case trace::Delivery::Outcome::end_of_file:
        break;
    }
    delivery_.resume();
    file_->move_to(delivery_.byte_offset());
    if (!file_->is_at_its_path())
      return refuse("the recording was removed or replaced while it was followed",
                    "follow the new one");
    return State::waiting;
  }
  return State::behind;
}

}  // namespace gpumemprof
