// Reads recordings of GPU memory: .gmp files and PyTorch memory snapshots.
//
//   auto recording = gpumemprof::Recording::open("run.gmp");
//   if (!recording) return fail(recording.error().sentence);
//   for (const gpumemprof::Device& device : recording->devices())
//     std::cout << device.name() << ": " << device.peak().allocated_bytes << '\n';
//
// Devices, rows and texts belong to their Recording and must not outlive it. Any number of threads
// may read one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpumemprof/records.h"
#include "gpumemprof/result.h"
#include "gpumemprof/rows.h"

namespace gpumemprof {

namespace detail {

// Rows of one device, by the function of the C interface that reads them.
template <typename RowType, typename RawType,
          std::size_t (*Read)(const gpumemprof_recording*, std::uint32_t, std::uint64_t, RawType*,
                              std::size_t, std::size_t)>
struct DeviceRows {
  using Row = RowType;
  using Raw = RawType;
  const gpumemprof_recording* recording;
  std::uint32_t device;

  std::size_t read(std::uint64_t first, Raw* rows, std::size_t count) const {
    return Read(recording, device, first, rows, count, sizeof(Raw));
  }
  static Row row(const Raw& raw) { return Row(raw); }
};

// Rows of a simulation or of advice.
template <typename Owner, typename RowType, typename RawType,
          std::size_t (*Read)(const Owner*, std::uint64_t, RawType*, std::size_t, std::size_t)>
struct OwnedRows {
  using Row = RowType;
  using Raw = RawType;
  const Owner* owner;

  std::size_t read(std::uint64_t first, Raw* rows, std::size_t count) const {
    return Read(owner, first, rows, count, sizeof(Raw));
  }
  static Row row(const Raw& raw) { return Row(raw); }
};

template <typename Handle, void (*Free)(Handle*)>
struct Freeing {
  void operator()(Handle* handle) const { Free(handle); }
};

// A document of the C interface, which `make` is given the place for an error to ask for.
template <typename Make>
Result<std::string> document(const Make& make) {
  gpumemprof_error* error = nullptr;
  char* text = make(&error);
  if (text == nullptr) return taken(error);
  std::string copy(text);
  gpumemprof_text_free(text);
  return copy;
}

}  // namespace detail

using Events = Rows<detail::DeviceRows<Event, gpumemprof_event, gpumemprof_read_events>>;
using Allocations =
    Rows<detail::DeviceRows<Allocation, gpumemprof_allocation, gpumemprof_read_allocations>>;
using Moments = Rows<detail::DeviceRows<Moment, gpumemprof_moment, gpumemprof_read_moments>>;
using Sources = Rows<detail::DeviceRows<Source, gpumemprof_source, gpumemprof_read_sources>>;
using Steps = Rows<detail::DeviceRows<Step, gpumemprof_step, gpumemprof_read_steps>>;

class Device {
 public:
  Device(const gpumemprof_recording* recording, std::uint32_t row, const gpumemprof_device& raw)
      : recording_(recording), row_(row), raw_(raw) {}

  int index() const { return raw_.index; }  // -1: main memory
  std::string_view name() const { return detail::text(raw_.name); }
  std::string_view card_name() const { return detail::text(raw_.card_name); }
  std::optional<std::uint64_t> card_total_bytes() const {
    return detail::bytes(raw_.card_total_bytes);
  }
  RunKind run_kind() const { return static_cast<RunKind>(raw_.run_kind); }
  bool has_pool() const { return raw_.has_pool != 0; }        // false: CPU tensors
  bool has_history() const { return raw_.has_history != 0; }  // false: only the end is known
  bool has_labels() const { return raw_.has_labels != 0; }

  std::uint64_t event_count() const { return raw_.events; }
  std::uint64_t allocation_count() const { return raw_.allocations; }
  std::uint64_t step_count() const { return raw_.steps; }
  // Of a part of a run: so many events at its start only restore the state that it begins with.
  std::uint32_t lead_in_events() const { return raw_.lead_in_events; }

  // When the most was allocated; no event: when the history began.
  Totals peak() const { return Totals(raw_.peak); }
  std::optional<std::uint32_t> peak_event() const { return detail::number(raw_.peak_event); }
  std::optional<std::uint64_t> peak_reserved_bytes() const {
    return detail::bytes(raw_.peak_reserved_bytes);
  }
  Totals start() const { return Totals(raw_.start); }
  Totals end() const { return Totals(raw_.end); }
  // From when on every figure is exact; none: never.
  std::optional<std::uint32_t> exact_from_event() const {
    return detail::number(raw_.exact_from_event);
  }
  std::uint64_t out_of_memory() const { return raw_.out_of_memory; }  // how often

  Events events() const { return Events({recording_, row_}); }
  Allocations allocations() const { return Allocations({recording_, row_}); }
  // The state after each event. The first use takes time and memory in proportion to the events.
  Moments moments() const { return Moments({recording_, row_}); }
  // In the order in which they are shown.
  Sources sources() const { return Sources({recording_, row_}); }
  Steps steps() const { return Steps({recording_, row_}); }
  // What each source holds after an event.
  Result<SourceBytes> sources_at(std::uint32_t event) const {
    gpumemprof_source_bytes raw;
    gpumemprof_error* error = nullptr;
    if (gpumemprof_sources_at(recording_, row_, event, &raw, sizeof(raw), &error) == 0)
      return detail::taken(error);
    return SourceBytes(raw);
  }

 private:
  const gpumemprof_recording* recording_;
  std::uint32_t row_;
  gpumemprof_device raw_;
};

struct SimulateOptions {
  std::vector<std::string> alloc_confs;      // PYTORCH_CUDA_ALLOC_CONF strings to try
  std::vector<std::uint64_t> memory_limits;  // bytes; each is tried with each setting
  std::string torch_version;                 // "2.8"; empty: the rules that fit the recording best
  bool searches = false;                     // try sensible settings and rank them
  std::optional<int> device;                 // index; none: all
};

// A recorded run under other allocator settings.
class Simulation {
 public:
  explicit Simulation(gpumemprof_simulation* taken) : handle_(taken) {}

  using Runs = Rows<detail::OwnedRows<gpumemprof_simulation, SimulatedRun, gpumemprof_simulated,
                                      gpumemprof_read_simulated>>;
  // For each device, the recorded settings first; after a search, the rest best first.
  Runs runs() const { return Runs({handle_.get()}); }
  // What `gpumemprof simulate --json` prints.
  Result<std::string> json() const {
    return detail::document(
        [&](auto** error) { return gpumemprof_simulation_json(handle_.get(), error); });
  }

 private:
  std::unique_ptr<gpumemprof_simulation,
                  detail::Freeing<gpumemprof_simulation, gpumemprof_simulation_free>>
      handle_;
};

class Recording;

struct AdviseOptions {
  std::optional<std::uint64_t> fit_bytes;  // find the cheapest way to stay below
  std::optional<std::uint64_t> batch;      // samples in a recorded batch
  std::optional<std::uint64_t> sequence;   // tokens in a recorded sequence
  std::optional<int> device;               // index; none: the one with the highest peak
  const Recording* other = nullptr;        // with another batch size
};

// What each remedy would save.
class Advice {
 public:
  explicit Advice(gpumemprof_advice* taken) : handle_(taken) {
    gpumemprof_get_advice(handle_.get(), &raw_, sizeof(raw_));
  }

  using Remedies = Rows<
      detail::OwnedRows<gpumemprof_advice, Remedy, gpumemprof_remedy, gpumemprof_read_remedies>>;
  Remedies remedies() const { return Remedies({handle_.get()}); }  // largest saving first
  int device() const { return raw_.device; }
  RunKind run_kind() const { return static_cast<RunKind>(raw_.run_kind); }
  std::uint64_t peak_allocated_bytes() const { return raw_.peak_allocated_bytes; }  // as recorded
  std::optional<std::uint64_t> peak_reserved_bytes() const {
    return detail::bytes(raw_.peak_reserved_bytes);
  }
  std::string_view partial() const { return detail::text(raw_.partial); }

  // With a limit: whether the run fits as it is, whether remedies make it fit, and which.
  bool fits_already() const { return raw_.fits_already != 0; }
  bool is_fit_found() const { return raw_.is_fit_found != 0; }
  std::string_view fit_names() const { return detail::text(raw_.fit_names); }  // "a+b"
  std::string_view fit_refusal() const { return detail::text(raw_.fit_refusal); }
  std::optional<Prediction> fit_peak_allocated() const {
    return Prediction::from(raw_.fit_peak_allocated);
  }
  std::optional<Prediction> fit_peak_reserved() const {
    return Prediction::from(raw_.fit_peak_reserved);
  }
  // What `gpumemprof advise --json` prints.
  Result<std::string> json() const {
    return detail::document(
        [&](auto** error) { return gpumemprof_advice_json(handle_.get(), error); });
  }

 private:
  std::unique_ptr<gpumemprof_advice, detail::Freeing<gpumemprof_advice, gpumemprof_advice_free>>
      handle_;
  gpumemprof_advice_summary raw_{};
};

class Recording {
 public:
  // All of it is loaded into memory.
  static Result<Recording> open(const std::string& path) {
    gpumemprof_error* error = nullptr;
    gpumemprof_recording* handle = gpumemprof_open(path.c_str(), &error);
    return handle == nullptr ? Result<Recording>(detail::taken(error)) : Recording(handle);
  }
  // Only these steps of a .gmp file of any length.
  static Result<Recording> open_steps(const std::string& path, std::uint32_t first,
                                      std::uint32_t last) {
    gpumemprof_error* error = nullptr;
    gpumemprof_recording* handle = gpumemprof_open_steps(path.c_str(), first, last, &error);
    return handle == nullptr ? Result<Recording>(detail::taken(error)) : Recording(handle);
  }

  std::string_view path() const { return detail::text(info_.path); }
  // "live", "torch_snapshot", "simulated", "predicted" (by estimate).
  std::string_view kind() const { return detail::text(info_.kind); }
  bool is_whole() const { return info_.is_whole != 0; }  // nothing is known to be missing
  std::uint64_t lost_events() const { return info_.lost_events; }
  // A sentence where the file ends too early; empty where it does not.
  std::string_view cut() const { return detail::text(info_.cut); }
  std::string_view torch_version() const { return detail::text(info_.torch); }
  std::string_view recorder_version() const { return detail::text(info_.recorder); }
  std::string_view command() const { return detail::text(info_.command); }
  std::string_view host() const { return detail::text(info_.host); }

  std::vector<Device> devices() const {
    std::vector<Device> devices;
    for (std::uint32_t row = 0; row < info_.devices; ++row) {
      gpumemprof_device raw;
      if (gpumemprof_get_device(handle_.get(), row, &raw, sizeof(raw), nullptr) != 0)
        devices.emplace_back(handle_.get(), row, raw);
    }
    return devices;
  }

  // Innermost first; empty for a stack that is none.
  std::vector<Frame> stack(std::optional<std::uint32_t> stack) const {
    std::vector<Frame> frames;
    if (!stack) return frames;
    constexpr std::size_t kUsual = 64;
    std::vector<gpumemprof_frame> rows(kUsual);
    std::size_t count = read_stack(*stack, rows);
    if (count > rows.size()) {
      rows.resize(count);
      count = read_stack(*stack, rows);
    }
    for (std::size_t row = 0; row < count; ++row) frames.emplace_back(rows[row]);
    return frames;
  }

  // The line of a stack that the program's author can change, as reports show it: the innermost
  // frame outside of torch, other libraries and the system, or without one, the innermost frame of
  // Python. None: the stack has none.
  std::optional<Frame> line(std::optional<std::uint32_t> stack) const {
    gpumemprof_frame row{};
    if (!stack || gpumemprof_line_of_stack(handle_.get(), *stack, &row, sizeof(row)) == 0)
      return std::nullopt;
    return Frame(row);
  }

  Result<Simulation> simulate(const SimulateOptions& options = {}) const {
    std::vector<const char*> confs;
    confs.reserve(options.alloc_confs.size());
    for (const std::string& conf : options.alloc_confs) confs.push_back(conf.c_str());
    const gpumemprof_simulate_options raw = {
        confs.data(),
        confs.size(),
        options.memory_limits.data(),
        options.memory_limits.size(),
        options.torch_version.empty() ? nullptr : options.torch_version.c_str(),
        static_cast<std::uint8_t>(options.searches ? 1 : 0),
        options.device.value_or(GPUMEMPROF_ANY_DEVICE)};
    gpumemprof_error* error = nullptr;
    gpumemprof_simulation* made = gpumemprof_simulate(handle_.get(), &raw, sizeof(raw), &error);
    return made == nullptr ? Result<Simulation>(detail::taken(error)) : Simulation(made);
  }

  Result<Advice> advise(const AdviseOptions& options = {}) const {
    const gpumemprof_advise_options raw = {
        options.fit_bytes.value_or(GPUMEMPROF_UNKNOWN), options.batch.value_or(GPUMEMPROF_UNKNOWN),
        options.sequence.value_or(GPUMEMPROF_UNKNOWN),
        options.device.value_or(GPUMEMPROF_ANY_DEVICE),
        options.other == nullptr ? nullptr : options.other->handle_.get()};
    gpumemprof_error* error = nullptr;
    gpumemprof_advice* made = gpumemprof_advise(handle_.get(), &raw, sizeof(raw), &error);
    return made == nullptr ? Result<Advice>(detail::taken(error)) : Advice(made);
  }

  // What the commands info, report and leaks print with --json.
  Result<std::string> info_json() const { return document(gpumemprof_info_json); }
  Result<std::string> report_json() const { return document(gpumemprof_report_json); }
  Result<std::string> leaks_json() const { return document(gpumemprof_leaks_json); }

 private:
  explicit Recording(gpumemprof_recording* taken) : handle_(taken) {
    gpumemprof_get_info(handle_.get(), &info_, sizeof(info_));
  }
  std::size_t read_stack(std::uint32_t stack, std::vector<gpumemprof_frame>& rows) const {
    return gpumemprof_read_stack(handle_.get(), stack, rows.data(), rows.size(),
                                 sizeof(gpumemprof_frame));
  }
  Result<std::string> document(char* (*make)(const gpumemprof_recording*,
                                             gpumemprof_error**)) const {
    return detail::document([&](auto** error) { return make(handle_.get(), error); });
  }

  std::unique_ptr<gpumemprof_recording, detail::Freeing<gpumemprof_recording, gpumemprof_close>>
      handle_;
  gpumemprof_recording_info info_{};
};

}  // namespace gpumemprof
