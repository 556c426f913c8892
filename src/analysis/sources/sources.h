// Sources: what the memory of a recording is used for, at every moment of the run: parameters,
// gradients, optimizer state, activations, inputs, workspace, temporaries, and unknown.
//
// Every allocation has exactly one source. Figures are in requested bytes, so that they equal the
// storages of the tensors; the excess size of the blocks is reported separately as rounding. At
// every moment the sources and the rounding add up to the allocated bytes. If the recording has
// labels of storages they decide (measured); everything else follows from stacks, sizes, lifetimes
// and repetition (inferred). What has no evidence stays unknown.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "event/memory_source.h"
#include "event/provenance.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

// Requested bytes by MemorySource, and the excess size of the blocks.
struct SourceBytes {
  std::array<std::uint64_t, kMemorySourceCount> by_source{};
  std::uint64_t rounding = 0;

  std::uint64_t& operator[](MemorySource source) {
    return by_source[static_cast<std::size_t>(source)];
  }
  const std::uint64_t& operator[](MemorySource source) const {
    return by_source[static_cast<std::size_t>(source)];
  }
  // A damaged recording may claim that more was requested than the block has.
  void add(MemorySource source, std::uint64_t requested_bytes, std::uint64_t block_bytes) {
    const std::uint64_t used_bytes = requested_bytes < block_bytes ? requested_bytes : block_bytes;
    (*this)[source] += used_bytes;
    rounding += block_bytes - used_bytes;
  }
  void remove(MemorySource source, std::uint64_t requested_bytes, std::uint64_t block_bytes) {
    const std::uint64_t used_bytes = requested_bytes < block_bytes ? requested_bytes : block_bytes;
    (*this)[source] -= used_bytes;
    rounding -= block_bytes - used_bytes;
  }
  [[nodiscard]] std::uint64_t allocated() const {
    std::uint64_t sum = rounding;
    for (const std::uint64_t bytes : by_source) sum += bytes;
    return sum;
  }
  bool operator==(const SourceBytes&) const = default;
};

// Whether the recorded program trains. A run without backward is inference; one that ended before a
// first backward was possible is unknown.
enum class RunKind : std::uint8_t { unknown, training, inference };
constexpr std::string_view run_kind_name(RunKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"unknown", "training", "inference"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct SourceFigure {
  std::uint64_t bytes_at_peak = 0;
  std::uint64_t bytes_max = 0;  // its own maximum; generally not at the overall peak
  std::uint32_t max_event = kNoEvent;
  // Measured only if a label names every row that the figure counts: of bytes_at_peak (of bytes_max
  // if nothing was live then), and of bytes_max.
  Provenance provenance = Provenance::inferred;
  Provenance max_provenance = Provenance::inferred;
};

// The moment of most allocated bytes in each stretch of the history: the peak is one of them.
struct SourceSeries {
  std::vector<std::uint32_t> event;
  std::vector<SourceBytes> bytes;
};

// One phase of one step; consecutive spans of the same phase are joined.
struct PhaseFigures {
  Phase phase = Phase::other;
  std::uint32_t step = 0;
  std::uint32_t first_event = 0;
  std::uint32_t last_event = 0;
  std::uint64_t live_bytes = 0;  // after its last event
  std::uint64_t peak_bytes = 0;  // the most allocated in it
  std::uint32_t peak_event = kNoEvent;
  std::uint64_t floor_bytes = 0;  // the least allocated in it
  SourceBytes at_peak{};          // of the phase
  // Each source's own maximum.
  std::array<std::uint64_t, kMemorySourceCount> most_by_source{};
  // At the end of a forward: activations that stay live. None for other phases, and for a forward
  // that no backward follows.
  std::optional<std::uint64_t> saved_for_backward_bytes;
};

// Steps in the middle of a long run, of which only this is kept.
struct StepsLeftOut {
  std::uint32_t count = 0;
  std::uint64_t least_peak_bytes = kUnknownBytes;
  std::uint64_t largest_peak_bytes = 0;

  void add(const StepsLeftOut& more) {
    count += more.count;
    least_peak_bytes = std::min(least_peak_bytes, more.least_peak_bytes);
    largest_peak_bytes = std::max(largest_peak_bytes, more.largest_peak_bytes);
  }
};

struct StepFigures {
  std::uint32_t step = 0;  // from 1; 0: before the first step
  std::uint32_t first_event = 0;
  std::uint32_t last_event = 0;
  std::uint64_t live_bytes = 0;  // after its last event
  std::uint64_t peak_bytes = 0;
  std::uint32_t peak_event = kNoEvent;
  std::uint64_t floor_bytes = 0;  // the least allocated in it
  SourceBytes at_peak{};
  // Each source's own maximum.
  std::array<std::uint64_t, kMemorySourceCount> most_by_source{};
  std::uint64_t saved_for_backward_bytes = 0;  // the most at the end of one of its forwards
  std::uint32_t first_phase = 0;               // row of phases
  std::uint32_t phase_count = 0;
  StepsLeftOut left_out;  // behind it
};

// What was live at the peak by the module it belongs to: a tree, parents before children. In a
// snapshot a module is identified by its place in the code, so the layers of one kind are one node.
struct ModuleNode {
  static constexpr std::uint32_t kNoParent = 0xffffffffU;
  std::uint32_t parent = kNoParent;
  std::string name;  // the module's path if it was recorded; else empty and `frame` says where
  FrameId frame;     // the line of a forward() that led to the allocations
  std::uint64_t bytes = 0;  // including its children
  std::uint64_t blocks = 0;
  SourceBytes by_source{};
  std::uint64_t self_bytes = 0;  // its own only
};

struct SourcesOptions {
  std::size_t series_points = 500;  // at most
};

struct DeviceSources {
  DeviceIndex device = 0;
  std::uint64_t peak_bytes = 0;  // allocated: the sum of bytes_at_peak, and of the rounding
  std::uint32_t peak_event = kNoEvent;
  RunKind kind = RunKind::unknown;
  Phase peak_phase = Phase::other;
  std::uint32_t peak_step = 0;
  // The peak is in the last tenth of a forward, or in the first tenth of the backward after it.
  bool is_end_of_forward = false;
  bool is_start_of_backward = false;
  std::array<SourceFigure, kMemorySourceCount> figures;  // by MemorySource
  SourceFigure rounding;
  // Part of the parameters at the peak; none if it is not known which are buffers.
  std::optional<std::uint64_t> buffer_bytes_at_peak;
  bool has_labels = false;
  bool has_stacks = false;  // false: everything follows from sizes and lifetimes only
  std::vector<PhaseSpan> spans;
  std::vector<PhaseFigures> phases;
  std::vector<StepFigures> steps;
  SourceSeries series;
  std::vector<ModuleNode> modules;
  // Each module is one node; otherwise modules are identified by the lines that call them.
  bool has_module_instances = false;

  [[nodiscard]] const SourceFigure& figure(MemorySource source) const {
    return figures[static_cast<std::size_t>(source)];
  }
};

// What each allocation is for: labels first, inference for the rest.
AllocationLabels label_allocations(const Store& store, const DeviceRecord& record,
                                   const std::vector<PhaseSpan>& spans);

struct KnownLabels;  // measured.h

// What only the whole run shows, if the record holds a part of it.
struct KnownRun {
  RunKind kind = RunKind::unknown;
  std::vector<std::uint32_t> grown;     // rows of the record that belong to growing memory
  const KnownLabels* labels = nullptr;  // of a run that has labels; null: the record has them all
};
AllocationLabels label_allocations(const Store& store, const DeviceRecord& record,
                                   const std::vector<PhaseSpan>& spans, const KnownRun& known);

// The phases of a device's history, from stacks (and from marks if a recording has them).
std::vector<PhaseSpan> find_phases(const Store& store, const DeviceRecord& record);
// The same while it is not known whether the run trains: calls of a model count as steps.
std::vector<PhaseSpan> find_spans(const Store& store, const DeviceRecord& record);

// What each source holds at a moment.
SourceBytes sources_at(const DeviceRecord& record, const AllocationLabels& labels, Moment moment);

// What is live at the peak: its bytes and provenance by source, and its modules. After find_sources
// or a Sweep found the maxima of the sources.
void find_sources_at_peak(const Store& store, const DeviceRecord& record,
                          const AllocationLabels& labels, Moment peak, DeviceSources& sources);
// The phase and the step of the peak, from the figures of the phases.
void place_peak(DeviceSources& sources);

// The figures of one device. The labels must be those of its allocations.
DeviceSources find_sources(const Store& store, const DeviceRecord& record,
                           const DeviceReplay& replay, const AllocationLabels& labels,
                           std::vector<PhaseSpan> spans, const SourcesOptions& options = {});

}  // namespace gpumemprof
