// SnapshotAssembly: assembles the records of a snapshot: which events belong to which device, which
// blocks to which segment, and what the settings are.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_set>

#include "event/event_sink.h"
#include "ingest/snapshot_records.h"

namespace gpumemprof {

class SnapshotAssembly {
 public:
  SnapshotAssembly(EventSink& sink, const pickle::Heap& heap, SnapshotRecords& records)
      : sink_(sink), heap_(heap), records_(records) {}

  // Delivers everything, or says why this is not a snapshot.
  std::optional<std::string> deliver(pickle::Value root,
                                     const std::optional<pickle::Damage>& damage);

 private:
  struct Trace {
    DeviceIndex device;
    std::vector<pickle::Run> runs;
  };

  [[nodiscard]] pickle::Value item(pickle::Value dict, std::string_view key) const;
  bool is_met_first(pickle::Value list);
  void collect_trace(DeviceIndex device, pickle::Value events, std::vector<Trace>& traces);
  void deliver_traces(pickle::Value device_traces, pickle::Value host_traces);
  void deliver_segments(pickle::Value segments, bool is_host);
  void deliver_segment(SegmentState segment, pickle::Value blocks);
  void deliver_annotations(pickle::Value annotations);
  void deliver_settings(pickle::Value settings);
  void describe_setting(const std::string& key, pickle::Value value);
  void take_roundup(pickle::Value divisions);
  void for_each_record(pickle::Value list, pickle::Tag kind,
                       const std::function<void(std::uint32_t)>& visit) const;

  EventSink& sink_;
  const pickle::Heap& heap_;
  SnapshotRecords& records_;
  Origin origin_;
  AllocatorSettings settings_;
  std::unordered_set<std::uint32_t> delivered_lists_;
};

}  // namespace gpumemprof
