// StoredCheckpoint: a checkpoint as the index holds it: whole, or as the changes of one that is.
//
// Most of what is live stays so for long: parameters, the optimizer's state, what leaks. It is
// stored once, in a whole checkpoint; those after it say what died since and what was born. As that
// becomes much, one of them, the middle, is what the next ones refer to. So reading any takes three
// at most: it, its middle and the whole one.
#pragma once

#include <cstdint>
#include <vector>

#include "index/index_fields.h"
#include "windows/checkpoint.h"

namespace gpumemprof {

// Of a list: so many rows of the base in a row are kept, so many that follow are left out, and so
// many others take their place.
struct ListChange {
  std::uint32_t kept = 0;
  std::uint32_t left_out = 0;
  std::uint32_t added = 0;
};

template <typename T>
struct ChangedList {
  std::vector<ListChange> changes;
  std::vector<T> added;
};

struct StoredCheckpoint {
  DeviceIndex device = 0;
  std::uint32_t number = 0;
  std::uint32_t base = 0;  // the checkpoint that it changes; its own number: it is whole
  std::uint32_t event = 0;
  ChangedList<SegmentState> segments;
  ChangedList<OldAllocation> allocations;  // as steps from one to the next
};

template <typename Archive>
void columns(Archive& archive, std::vector<ListChange>& rows) {
  using Row = ListChange;
  archive.all_columns(
      rows, [](Row& x) -> auto& { return x.kept; }, [](Row& x) -> auto& { return x.left_out; },
      [](Row& x) -> auto& { return x.added; });
}
template <typename Archive>
void fields(Archive& archive, ChangedList<SegmentState>& x) {
  archive.all(x, ByColumn{x.changes}, x.added);
}
template <typename Archive>
void fields(Archive& archive, ChangedList<OldAllocation>& x) {
  archive.all(x, ByColumn{x.changes}, ByColumn{x.added});
}
template <typename Archive>
void fields(Archive& archive, StoredCheckpoint& x) {
  archive.all(x, x.device, x.number, x.base, x.event, x.segments, x.allocations);
}

// The phases between two checkpoints; first_event as the step from the one before.
struct StoredSpans {
  std::vector<PhaseSpan> spans;
};
template <typename Archive>
void columns(Archive& archive, std::vector<PhaseSpan>& rows) {
  using Row = PhaseSpan;
  archive.all_columns(
      rows, [](Row& x) -> auto& { return x.first_event; }, [](Row& x) -> auto& { return x.phase; },
      [](Row& x) -> auto& { return x.step; });
}
template <typename Archive>
void fields(Archive& archive, StoredSpans& x) {
  archive.all(x, ByColumn{x.spans});
}

// What tells a row from all others, and from itself at another checkpoint. The rest of it follows
// from the event that allocated it.
struct RowIdentity {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t birth_event = kNoEvent;
  StringId name;
  StackId stack;
  MemorySource source = MemorySource::unknown;
  std::uint8_t flags = 0;
  bool is_pending = false;
  bool operator==(const RowIdentity&) const = default;
};

// A checkpoint, as far as others are compared with it.
struct CheckpointRows {
  std::uint32_t number = 0;
  std::vector<SegmentState> segments;
  std::vector<RowIdentity> allocations;
};
CheckpointRows rows_of(const DeviceCheckpoint& checkpoint);

// Against this base; null: whole. Spans are stored apart.
StoredCheckpoint to_stored(const DeviceCheckpoint& checkpoint, const CheckpointRows* base);
// How many of its rows are not those of the base.
std::size_t added_rows(const StoredCheckpoint& stored);
// False if the changes do not fit the base: a forged index may hold any.
bool from_stored(StoredCheckpoint& stored, const DeviceCheckpoint* base, DeviceCheckpoint& found);

StoredSpans to_stored(const std::vector<PhaseSpan>& spans);
std::vector<PhaseSpan> from_stored(StoredSpans&& stored);

}  // namespace gpumemprof
