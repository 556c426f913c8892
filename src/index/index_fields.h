// The fields of everything that an index holds. A list of another length than its struct does not
// compile; whoever adds a field adds it here, and indexes of before are made again by themselves.
#pragma once

#include "analysis/overview/overview.h"
#include "index/archive.h"
#include "trace/recording_place.h"
#include "trace/stretch_reader.h"
#include "windows/checkpoint.h"

namespace gpumemprof {

template <auto Last>
inline constexpr std::size_t kValuesUpTo = static_cast<std::size_t>(Last) + 1;

template <>
inline constexpr std::size_t kEnumValues<MemorySource> = kMemorySourceCount;
template <>
inline constexpr std::size_t kEnumValues<Provenance> = kValuesUpTo<Provenance::estimated>;
template <>
inline constexpr std::size_t kEnumValues<RunKind> = kValuesUpTo<RunKind::inference>;
template <>
inline constexpr std::size_t kEnumValues<Phase> = kPhaseCount;
template <>
inline constexpr std::size_t kEnumValues<AskedMoment::Kind> = kValuesUpTo<AskedMoment::Kind::event>;
template <>
inline constexpr std::size_t kEnumValues<OomCause> = kValuesUpTo<OomCause::shortage>;
template <>
inline constexpr std::size_t kEnumValues<OomDoubt> = kValuesUpTo<OomDoubt::not_tried>;
template <>
inline constexpr std::size_t kEnumValues<OutsideKind> = kOutsideKindCount;
template <>
inline constexpr std::size_t kEnumValues<LeakVerdict> = kValuesUpTo<LeakVerdict::leak>;
template <>
inline constexpr std::size_t kEnumValues<RepetitionKind> = kValuesUpTo<RepetitionKind::lines>;

// Found by the types of their arguments.

template <typename Archive>
void fields(Archive& archive, Frame& x) {
  archive.all(x, x.name, x.file, x.line);
}
template <typename Archive>
void fields(Archive& archive, PoolId& x) {
  archive.all(x, x.graph, x.user);
}
template <typename Archive>
void fields(Archive& archive, SourceBytes& x) {
  archive.all(x, x.by_source, x.rounding);
}
template <typename Archive>
void fields(Archive& archive, SourceFigure& x) {
  archive.all(x, x.bytes_at_peak, x.bytes_max, x.max_event, x.provenance, x.max_provenance);
}
template <typename Archive>
void fields(Archive& archive, SourceSeries& x) {
  archive.all(x, x.event, x.bytes);
  archive.require(x.event.size() == x.bytes.size());
}
template <typename Archive>
void fields(Archive& archive, PhaseSpan& x) {
  archive.all(x, x.first_event, x.phase, x.step);
}
template <typename Archive>
void fields(Archive& archive, PhaseFigures& x) {
  archive.all(x, x.phase, x.step, x.first_event, x.last_event, x.live_bytes, x.peak_bytes,
              x.peak_event, x.floor_bytes, x.at_peak, x.most_by_source, x.saved_for_backward_bytes);
}
template <typename Archive>
void fields(Archive& archive, StepsLeftOut& x) {
  archive.all(x, x.count, x.least_peak_bytes, x.largest_peak_bytes);
}
template <typename Archive>
void fields(Archive& archive, StepFigures& x) {
  archive.all(x, x.step, x.first_event, x.last_event, x.live_bytes, x.peak_bytes, x.peak_event,
              x.floor_bytes, x.at_peak, x.most_by_source, x.saved_for_backward_bytes, x.first_phase,
              x.phase_count, x.left_out);
}
template <typename Archive>
void fields(Archive& archive, ModuleNode& x) {
  archive.all(x, x.parent, x.name, x.frame, x.bytes, x.blocks, x.by_source, x.self_bytes);
}
template <typename Archive>
void fields(Archive& archive, DeviceSources& x) {
  archive.all(x, x.device, x.peak_bytes, x.peak_event, x.kind, x.peak_phase, x.peak_step,
              x.is_end_of_forward, x.is_start_of_backward, x.figures, x.rounding,
              x.buffer_bytes_at_peak, x.has_labels, x.has_stacks, LeftOut{x.spans}, x.phases,
              x.steps, x.series, x.modules, x.has_module_instances);
  for (const StepFigures& step : x.steps)
    archive.require(std::uint64_t{step.first_phase} + step.phase_count <= x.phases.size());
  // Parents come first, so no node is its own ancestor.
  for (std::size_t node = 0; node < x.modules.size(); ++node)
    archive.require(x.modules[node].parent < node ||
                    x.modules[node].parent == ModuleNode::kNoParent);
}
template <typename Archive>
void fields(Archive& archive, MemoryTotals& x) {
  archive.all(x, x.allocated_bytes, x.active_bytes, x.reserved_bytes, x.requested_bytes);
}
template <typename Archive>
void fields(Archive& archive, EndState& x) {
  archive.all(x, x.totals, x.inactive_split_bytes, x.segments, x.mapped_runs);
}
template <typename Archive>
void fields(Archive& archive, EventCounters& x) {
  archive.all(x, x.allocations, x.frees, x.segment_allocs, x.segment_frees, x.segment_maps,
              x.segment_unmaps, x.alloc_retries, x.unclear_retries, x.are_retries_counted, x.ooms);
}
template <typename Archive>
void fields(Archive& archive, DeviceReplay& x) {
  archive.all(x, x.peak, x.peak_event, x.peak_reserved_bytes, x.peak_reserved_event,
              x.peak_active_bytes, x.peak_requested_bytes, x.start, x.end, x.counters,
              x.has_history, x.has_end, x.exact_from_event, x.contradictions, x.blocks_from_before);
}
template <typename Archive>
void fields(Archive& archive, AskedMoment& x) {
  archive.all(x, x.kind, x.event, LeftOut{x.step});
}
template <typename Archive>
void fields(Archive& archive, When& x) {
  archive.all(x, x.event, x.time_ns, x.since_start_ns, x.step, x.phase, x.annotation);
}
template <typename Archive>
void fields(Archive& archive, LiveGroup& x) {
  archive.all(x, x.stack, x.is_backward, x.bytes, x.blocks, x.requested_bytes, x.tags);
}
template <typename Archive>
void fields(Archive& archive, LiveSet& x) {
  archive.all(x, x.groups, x.allocated_bytes, x.blocks);
}
template <typename Archive>
void fields(Archive& archive, LivePlace& x) {
  archive.all(x, x.frame, x.is_backward, x.bytes, x.blocks);
}
template <typename Archive>
void fields(Archive& archive, LiveLine& x) {
  archive.all(x, x.line, x.places, x.tags);
}
template <typename Archive>
void fields(Archive& archive, StreamShare& x) {
  archive.all(x, StreamRow{x.stream}, x.reserved_bytes, x.free_bytes, x.largest_free_bytes);
}
template <typename Archive>
void fields(Archive& archive, FreeMemory& x) {
  archive.all(x, x.reserved_bytes, x.allocated_bytes, x.waiting_bytes, x.free_bytes,
              x.whole_segment_bytes, x.whole_segments, x.hole_bytes, x.holes, x.small_pool_bytes,
              x.private_pool_bytes, x.largest_hole_bytes, x.largest_free_bytes, x.segments,
              x.segments_in_use, x.rounding_bytes, x.streams);
}
template <typename Archive>
void fields(Archive& archive, PinnedSegment& x) {
  archive.all(x, x.address, x.size_bytes, x.free_bytes, x.blocks, x.pin_bytes, x.pin_event,
              x.pin_stack);
}
template <typename Archive>
void fields(Archive& archive, PinningLine& x) {
  archive.all(x, x.frame, x.segments, x.free_bytes, x.pin_bytes);
}
template <typename Archive>
void fields(Archive& archive, FreeShares& x) {
  archive.all(x, x.free_bytes, x.other_stream_bytes, x.pinned_bytes, x.surplus_bytes);
}
template <typename Archive>
void fields(Archive& archive, PinReport& x) {
  archive.all(x, x.segments, x.lines, x.shares);
}
template <typename Archive>
void fields(Archive& archive, TagFigures& x) {
  archive.all(x, x.tag, x.bytes, x.blocks, x.bytes_max, x.allocations);
}
template <typename Archive>
void fields(Archive& archive, NamedTensor& x) {
  archive.all(x, x.name, x.source, x.is_measured, x.bytes);
}
template <typename Archive>
void fields(Archive& archive, TagReport& x) {
  archive.all(x, x.tags, x.largest, x.named_bytes, x.named_blocks);
}
template <typename Archive>
void fields(Archive& archive, GrowingLine& x) {
  archive.all(x, x.frame, x.is_backward, x.grown_bytes, x.bytes_per_step, x.since_step);
}
template <typename Archive>
void fields(Archive& archive, Growth& x) {
  archive.all(x, x.is_known, x.is_growing, x.steps, x.since_step, x.last_step, x.grown_bytes,
              x.bytes_per_step, x.line, x.lines, LeftOut{x.rows});
}
template <typename Archive>
void fields(Archive& archive, StepsLeft& x) {
  archive.all(x, x.steps, x.low, x.high, x.limit_bytes);
}
template <typename Archive>
void fields(Archive& archive, LeakSite& x) {
  archive.all(x, x.stack, x.is_backward, x.bytes_per_step, x.blocks_per_step, x.bytes, x.blocks,
              x.first_step, x.oldest_age_steps, x.source, x.source_provenance, x.module, x.tag,
              x.advice, x.doubt);
}
template <typename Archive>
void fields(Archive& archive, DeviceLeaks& x) {
  archive.all(x, x.device, x.name, x.verdict, x.repetition, x.repeated_line, x.steps, x.last_step,
              x.bytes_per_step, x.reserved_bytes_per_step, x.outside_bytes_per_step, x.line,
              x.leaks, x.suppressed, x.stopped_bytes, x.steps_to_oom, x.notes);
}
template <typename Archive>
void fields(Archive& archive, OutsideGrowth& x) {
  archive.all(x, x.kind, x.bytes, x.before_event, x.stack);
}
template <typename Archive>
void fields(Archive& archive, CardUsage& x) {
  archive.all(x, x.device, x.before_event, x.time_ns, x.total_bytes, x.firmware_bytes, x.used_bytes,
              x.process_bytes, x.other_processes_bytes, x.driver_bytes, x.free_bytes,
              x.reserved_bytes, x.outside_bytes, x.outside_by_kind, x.growth, x.requested_bytes,
              x.allocated_bytes, x.pending_bytes, x.cached_bytes, x.split_bytes, x.is_consistent);
  archive.require(x.outside_by_kind.empty() || x.outside_by_kind.size() == kOutsideKindCount);
}
template <typename Archive>
void fields(Archive& archive, ByteRange& x) {
  archive.all(x, x.low, x.high);
}
template <typename Archive>
void fields(Archive& archive, OomReport& x) {
  archive.all(x, x.event, x.wanted_bytes, x.device_free_bytes, x.largest_free_bytes, x.memory,
              x.stack, x.cause, x.contributing, x.doubts, x.remedy_doubts, x.limit,
              x.is_limit_stated, x.card_bytes, x.other_processes_bytes, x.outside_bytes,
              x.short_bytes, x.hoarded_blocks, x.largest_earlier_bytes, x.grown_bytes,
              x.surviving_confs, x.surviving_reserved_bytes, x.is_simulation_skipped,
              x.is_need_known);
}
template <typename Archive>
void fields(Archive& archive, DeviceOverview& x) {
  archive.all(x, x.device, x.name, x.events, x.duration_ns, x.replay, x.peak_when, x.asked,
              x.asked_when, x.totals, x.live, x.live_lines, x.memory, x.pins, x.tags,
              x.asked_sources, x.sources, x.growth, x.leaks, x.card_usage, x.ooms, x.oom_whens);
  archive.require(x.ooms.size() == x.oom_whens.size());
}
template <typename Archive>
void fields(Archive& archive, LostPeriod& x) {
  archive.all(x, x.device, x.from_event, x.to_event, x.from_ns, x.to_ns, x.events, x.allocations,
              x.frees, x.is_summarised);
}
template <typename Archive>
void fields(Archive& archive, EventCounts& x) {
  archive.all(x, x.allocations, x.frees, x.others);
}
template <typename Archive>
void fields(Archive& archive, ExcerptRange& x) {
  archive.all(x, x.from, x.to, x.run_events, x.first_step, x.last_step, x.lead_in, x.is_around_peak,
              x.run_start_ns, x.is_expandable);
}
template <typename Archive>
void fields(Archive& archive, Completeness::Excerpt& x) {
  archive.all(x, x.device, x.range);
}
template <typename Archive>
void fields(Archive& archive, ChapterFigures::Device& x) {
  archive.all(x, x.device, x.peak_allocated_bytes, x.peak_reserved_bytes, x.floor_bytes,
              x.end_bytes);
}
template <typename Archive>
void fields(Archive& archive, ChapterFigures& x) {
  archive.all(x, x.number, x.is_kept, x.has_figures, x.size_bytes, x.first_time_ns, x.last_time_ns,
              x.events, x.failures, x.retries, x.first_step, x.last_step, x.devices);
}
template <typename Archive>
void fields(Archive& archive, StepSummary& x) {
  archive.all(x, x.first, x.last, x.device, x.peak_bytes, x.floor_bytes, x.reserved_bytes,
              x.end_bytes, x.events);
}
template <typename Archive>
void fields(Archive& archive, Completeness& x) {
  archive.all(x, x.is_recording, x.is_closed, LeftOut{x.is_being_written}, x.reason, x.problem,
              x.made, x.lost, x.recorded, x.least_lost, x.inferred_frees, x.was_paused,
              x.summarised, x.chapters, x.lost_periods, x.exact_until_ns, x.excerpts,
              x.host_resident_bytes, x.host_available_bytes, x.host_total_bytes);
}
template <typename Archive>
void fields(Archive& archive, Overview& x) {
  archive.all(x, LeftOut{x.path}, x.completeness, x.events, x.allocations, x.frees, x.devices);
}
template <typename Archive>
void fields(Archive& archive, CutPoint& x) {
  archive.all(x, x.byte_offset, x.reason);
}
template <typename Archive>
void fields(Archive& archive, DeviceCounts& x) {
  archive.all(x, x.device, x.made, x.lost, x.inferred_frees);
}
template <typename Archive>
void fields(Archive& archive, Ending& x) {
  archive.all(x, x.is_closed, x.reason, x.problem, x.has_counts, x.are_counts_exact, x.devices);
}
// Of one file: a folder of chapters has no index.
template <typename Archive>
void fields(Archive& archive, Origin& x) {
  archive.all(x, x.kind, x.device_type, x.has_segments, x.has_start, x.has_traces, x.cut, x.ending,
              x.settings, x.facts, x.chapters, x.steps);
}
// No aggregate: one of its members follows from the others.
template <typename Archive>
void fields(Archive& archive, AllocatorSettings& x) {
  archive.put(x.max_split_bytes);
  archive.put(x.max_non_split_rounding_bytes);
  archive.put(x.large_segment_bytes);
  archive.put(x.garbage_collection_threshold);
  archive.put(x.expandable_segments);
  archive.put(x.throw_on_device_oom);
  archive.put(x.roundup_divisions);
  x.settle();
}
template <typename Archive>
void fields(Archive& archive, ModuleLabel& x) {
  archive.all(x, x.path, x.class_name, x.forward_file, x.forward_line, x.forward_last_line,
              x.number, x.is_root);
  archive.require(x.number == kNoModule || x.number < kMaxModules);
}
template <typename Archive>
void fields(Archive& archive, OverlayOom& x) {
  archive.all(x, x.position, x.time_ns, x.wanted_bytes, x.allocated_bytes, x.reserved_bytes,
              x.stack);
}
template <typename Archive>
void fields(Archive& archive, PyramidBucket& x) {
  archive.all(x, x.first_time_ns, x.min_allocated_bytes, x.max_allocated_bytes, x.max_event,
              x.min_reserved_bytes, x.max_reserved_bytes, x.at_max);
}
template <typename Archive>
void fields(Archive& archive, SegmentState& x) {
  archive.all(x, x.device, x.address, x.size_bytes, StreamRow{x.stream}, PoolRow{x.pool},
              x.is_small, x.is_expandable, x.stack);
}
template <typename Archive>
void columns(Archive& archive, std::vector<OldAllocation>& rows) {
  using Row = OldAllocation;
  archive.all_columns(
      rows, [](Row& x) -> auto& { return x.address; }, [](Row& x) -> auto& { return x.size_bytes; },
      [](Row& x) -> auto& { return x.requested_bytes; },
      [](Row& x) -> auto& { return x.birth_event; }, [](Row& x) -> auto& { return x.is_pending; },
      [](Row& x) { return StreamRow{x.stream}; }, [](Row& x) -> auto& { return x.stack; },
      [](Row& x) -> auto& { return x.time_ns; }, [](Row& x) -> auto& { return x.compile_context; },
      [](Row& x) -> auto& { return x.user_metadata; }, [](Row& x) { return PoolRow{x.pool}; },
      [](Row& x) -> auto& { return x.forward_stack; }, [](Row& x) -> auto& { return x.module; },
      [](Row& x) -> auto& { return x.source; }, [](Row& x) -> auto& { return x.flags; },
      [](Row& x) -> auto& { return x.name; });
  for (const Row& row : rows) archive.require(row.module == kNoModule || row.module < kMaxModules);
}

// What overviews and excerpts refer to: first what refers to nothing, then the rest.
struct IndexedNames {
  Origin origin;
  AllocatorSettings settings;
  std::string program_folder;
  std::vector<std::string> strings;
  std::vector<std::uint64_t> streams;
  std::vector<PoolId> pools;
};
struct IndexedDefinitions {
  std::vector<Frame> frames;
  std::vector<StackId> callers;
  std::vector<FrameId> stack_frames;
  std::vector<ModuleLabel> modules;
};
template <typename Archive>
void fields(Archive& archive, IndexedNames& x) {
  archive.all(x, x.origin, x.settings, x.program_folder, x.strings, x.streams, x.pools);
}
template <typename Archive>
void fields(Archive& archive, IndexedDefinitions& x) {
  archive.all(x, x.frames, x.callers, x.stack_frames, x.modules);
}
// The rows that the recording's blocks refer to, as those of the definitions.
template <typename Archive>
void fields(Archive& archive, trace::DefinedRows& x) {
  archive.all(x, x.strings, x.frames, x.stacks, x.streams, x.pools);
}
template <typename Archive>
void fields(Archive& archive, trace::BlockPlace& x) {
  archive.all(x, x.byte_offset, x.number);
}
template <typename Archive>
void fields(Archive& archive, RecordingPlace& x) {
  archive.all(x, x.chapter, x.from_chapter, x.block);
}
template <typename Archive>
void fields(Archive& archive, LabelBlock& x) {
  archive.all(x, x.place, x.first_set);
}

}  // namespace gpumemprof
