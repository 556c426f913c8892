// Recording the memory of this process.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "api/answer.h"
#include "api/recorder/cuda_member.h"
#include "base/process.h"
#include "capture/capture.h"
#include "capture/libtorch/libtorch.h"
#include "event/alloc_conf.h"

struct gpumemprof_recorder {
  gpumemprof::capture::RecordingNumber number = 0;
  std::shared_ptr<gpumemprof::api::CudaMember> cuda;  // null: CPU tensors
};

namespace gpumemprof::api {
namespace {

bool records_cuda(const gpumemprof_record_options& given) {
  if (given.memory == GPUMEMPROF_MEMORY_ANY) return capture::cuda_device_count() > 0;
  return given.memory == GPUMEMPROF_MEMORY_CUDA;
}

capture::StartOptions start_options(const char* path, const gpumemprof_record_options& given) {
  capture::StartOptions options;
  options.path = path;
  options.overwrites = given.overwrites != 0;
  options.with_stacks = given.without_stacks == 0;
  options.native_stacks = options.with_stacks;
  options.native_depth = given.stack_depth;
  options.facts = {{"gpumemprof", GPUMEMPROF_VERSION},
                   {"host", own_host()},
                   {"pid", own_process_id()},
                   {"command", given.command == nullptr ? own_command() : given.command},
                   {"capture", "native"}};
  if (given.torch_version != nullptr) options.facts.emplace_back("torch", given.torch_version);
  return options;
}

// A program that ends without its recorder's end: exit() from anywhere, _exit(), or by a signal.
void close_at_exit() {
  static const bool kIsWatched = [] {
    capture::watch_exit();
    capture::watch_signals("");
    return std::atexit([] { capture::stop_all("exit"); }) == 0;
  }();
  static_cast<void>(kIsWatched);
}

Result<capture::RecordingNumber> open_recording(const capture::StartOptions& options) {
  Result<capture::RecordingNumber> number = capture::start(options);
  if (number) {
    close_at_exit();
    return number;
  }
  Error refused = number.error();
  if (refused.hint.find("-f ") != std::string::npos)
    refused.hint = "choose another name, or set `overwrites` to replace it";
  return refused;
}

Result<gpumemprof_recorder*> record_cpu(capture::StartOptions options) {
  // First: a file that nothing can be written to would only be in the way.
  if (const Status attached = capture::attach_cpu(); !attached) return attached.error();
  options.memory = capture::MemoryKind::cpu;
  const Result<capture::RecordingNumber> number = open_recording(options);
  if (!number) return number.error();
  return new gpumemprof_recorder{number.value(), nullptr};
}

Error not_followed(Error why) {
  why.message = "the memory of CUDA devices cannot be recorded: " + why.message;
  if (why.hint.empty()) why.hint = "the program runs on without a recording";
  return why;
}

Result<capture::TorchVersionNumber> torch_version(const gpumemprof_record_options& given) {
  if (const auto loaded = capture::loaded_torch_version()) return *loaded;
  if (given.torch_version != nullptr) {
    const Result<TorchVersion> version = parse_torch_version(given.torch_version);
    if (!version) return version.error();
    return capture::TorchVersionNumber{version.value().major, version.value().minor};
  }
  return Error{ErrorCode::environment, "which version of libtorch is loaded is not known", "",
               "set `torch_version` to the one that the program is compiled with"};
}

Result<gpumemprof_recorder*> record_cuda(capture::StartOptions options,
                                         const gpumemprof_record_options& given) {
  if (capture::cuda_device_count() == 0) {
    return Error{ErrorCode::environment, "there is no CUDA device, or libtorch does not use CUDA",
                 "", "record CPU tensors instead"};
  }
  const Result<capture::TorchVersionNumber> version = torch_version(given);
  if (!version) return not_followed(version.error());
  // First, as above.
  if (const Status known = capture::check_cuda(version.value()); !known)
    return not_followed(known.error());
  options.memory = capture::MemoryKind::cuda;
  if (given.torch_version == nullptr) {
    options.facts.emplace_back("torch", std::to_string(version.value().major) + "." +
                                            std::to_string(version.value().minor));
  }
  const Result<capture::RecordingNumber> number = open_recording(options);
  if (!number) return number.error();
  Result<std::shared_ptr<CudaMember>> member = CudaMember::join(number.value(), version.value());
  if (member) return new gpumemprof_recorder{number.value(), member.value()};
  capture::stop(number.value(), "not started");
  std::remove(options.path.c_str());
  return not_followed(member.error());
}

gpumemprof_recorder* start_recording(const char* path, const gpumemprof_record_options& given,
                                     gpumemprof_error** error) {
  if (given.memory < GPUMEMPROF_MEMORY_ANY || given.memory > GPUMEMPROF_MEMORY_CUDA) {
    report(error, {ErrorCode::usage,
                   "there is no kind of memory with the number " + std::to_string(given.memory), "",
                   "use a gpumemprof_memory"});
    return nullptr;
  }
  const capture::StartOptions options = start_options(path, given);
  const Result<gpumemprof_recorder*> recorder =
      records_cuda(given) ? record_cuda(options, given) : record_cpu(options);
  if (recorder) return recorder.value();
  report(error, recorder.error());
  return nullptr;
}

capture::Summary stop_recording(gpumemprof_recorder& recorder) {
  if (recorder.cuda != nullptr) recorder.cuda->stop_waiting();
  capture::Summary summary = capture::stop(recorder.number, "stop");
  if (recorder.cuda == nullptr) return summary;
  if (const std::optional<Error> failure = recorder.cuda->leave();
      failure && summary.problem.empty())
    summary.problem = failure->sentence();
  return summary;
}

gpumemprof_record_summary shown_summary(const capture::Summary& made) {
  gpumemprof_record_summary summary{made.events, made.lost_events, made.size_bytes, 0};
  for (const capture::DeviceSummary& device : made.devices)
    summary.peak_requested_bytes =
        std::max(summary.peak_requested_bytes, device.peak_requested_bytes);
  return summary;
}

capture::StorageLabel storage_label(const gpumemprof_label& label) {
  return {static_cast<LabelKind>(label.kind), static_cast<DeviceIndex>(label.device), label.address,
          label.name == nullptr ? "" : label.name};
}

std::optional<Error> bad_labels(const gpumemprof_label* labels, std::size_t count) {
  if (labels == nullptr && count > 0) return no_object("list of labels");
  if (count > kMaxLabelsPerSet)
    return Error{ErrorCode::usage, std::to_string(count) + " labels are too many for one set", "",
                 "define several sets"};
  for (std::size_t row = 0; row < count; ++row) {
    const std::int32_t kind = labels[row].kind;
    if (kind < 0 || static_cast<std::size_t>(kind) >= kLabelKindCount)
      return Error{ErrorCode::usage, "label " + std::to_string(row) + " has an unknown kind",
                   labels[row].name == nullptr ? "" : labels[row].name,
                   "use a gpumemprof_label_kind"};
    if (!device_index(labels[row].device))
      return Error{ErrorCode::usage, "label " + std::to_string(row) + " has an unknown device",
                   labels[row].name == nullptr ? "" : labels[row].name,
                   "use the number of a CUDA device, or -1 for a CPU tensor"};
  }
  return std::nullopt;
}

}  // namespace
}  // namespace gpumemprof::api

using namespace gpumemprof;

gpumemprof_recorder* gpumemprof_record(const char* path, const gpumemprof_record_options* options,
                                       size_t options_size, gpumemprof_error** error) {
  return api::guarded<gpumemprof_recorder*>(nullptr, error, [&]() -> gpumemprof_recorder* {
    if (path != nullptr)
      return api::start_recording(
          path, api::taken(options, options_size, gpumemprof_record_options{}), error);
    api::report(error, {ErrorCode::usage, "no path was given", "", "name the file to write"});
    return nullptr;
  });
}

int gpumemprof_record_stop(gpumemprof_recorder* recorder, gpumemprof_record_summary* summary,
                           size_t summary_size, gpumemprof_error** error) {
  return api::guarded(0, error, [&] {
    const std::unique_ptr<gpumemprof_recorder> owned(recorder);
    if (owned == nullptr) return 1;
    const capture::Summary made = api::stop_recording(*owned);
    api::fill(summary, summary_size, api::shown_summary(made));
    if (made.problem.empty()) return 1;
    api::report(error, {ErrorCode::environment, "the recording ended early: " + made.problem,
                        made.path, "what was recorded until then can be read"});
    return 0;
  });
}

void gpumemprof_record_step(void) {
  static std::atomic<std::uint32_t> steps{0};
  api::guarded(0, nullptr, [&] {
    if (!capture::is_recording()) return 0;
    const std::uint32_t number = steps.fetch_add(1, std::memory_order_relaxed);
    // Reports count steps from 1.
    if (number > 0) capture::mark("step " + std::to_string(number), Annotation::Stage::end);
    capture::mark("step " + std::to_string(number + 1), Annotation::Stage::start);
    capture::mark_phase(PhaseMark::Kind::step_start, number);
    return 0;
  });
}

void gpumemprof_record_optimizer(uint32_t optimizer, int is_start) {
  api::guarded(0, nullptr, [&] {
    capture::mark_phase(
        is_start != 0 ? PhaseMark::Kind::optimizer_start : PhaseMark::Kind::optimizer_end,
        optimizer);
    return 0;
  });
}

uint32_t gpumemprof_record_tag(const char* name) {
  return api::guarded<std::uint32_t>(0, nullptr, [&]() -> std::uint32_t {
    return name == nullptr ? 0 : capture::enter_tag(name);
  });
}

void gpumemprof_record_restore_tag(uint32_t tag) {
  api::guarded(0, nullptr, [&] {
    capture::leave_tag(static_cast<std::uint16_t>(tag));
    return 0;
  });
}

uint64_t gpumemprof_newest_recording(void) {
  return api::guarded<std::uint64_t>(0, nullptr, [] { return capture::newest_recording(); });
}

uint32_t gpumemprof_define_labels(const gpumemprof_label* labels, size_t count,
                                  gpumemprof_error** error) {
  return api::guarded<std::uint32_t>(GPUMEMPROF_NONE, error, [&]() -> std::uint32_t {
    if (const std::optional<Error> bad = api::bad_labels(labels, count)) {
      api::report(error, *bad);
      return GPUMEMPROF_NONE;
    }
    std::vector<capture::StorageLabel> set;
    set.reserve(count);
    for (std::size_t row = 0; row < count; ++row) set.push_back(api::storage_label(labels[row]));
    return capture::define_labels(std::move(set));
  });
}

uint32_t gpumemprof_move_labels(uint32_t set, const uint64_t* addresses, size_t count) {
  return api::guarded<std::uint32_t>(GPUMEMPROF_NONE, nullptr, [&]() -> std::uint32_t {
    if (addresses == nullptr) return GPUMEMPROF_NONE;
    return capture::move_labels(set, {addresses, addresses + count});
  });
}

void gpumemprof_apply_labels(uint32_t set) {
  api::guarded(0, nullptr, [&] {
    capture::apply_labels(set);
    return 0;
  });
}

void gpumemprof_forget_labels(uint32_t set) {
  api::guarded(0, nullptr, [&] {
    capture::forget_labels(set);
    return 0;
  });
}
