// PerfettoWriter: packets of a Perfetto trace (TracePacket), written to a file as they are made.
//
// It knows the wire format: tracks, slices, counters, instants, interned texts and call stacks. One
// sequence holds everything; texts and stacks are written where they are first used. Times are
// nanoseconds; they never decrease on a track.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_sink.h"
#include "report/perfetto/interned.h"
#include "store/store.h"

namespace gpumemprof {

class PerfettoWriter {
 public:
  // The store must outlive it.
  PerfettoWriter(std::unique_ptr<FileSink> file, const Store& store);
  ~PerfettoWriter();
  PerfettoWriter(const PerfettoWriter&) = delete;
  PerfettoWriter& operator=(const PerfettoWriter&) = delete;

  enum class TrackKind : std::uint8_t { group, slices, counter };
  struct Track {
    std::uint64_t id = 0;
    std::uint64_t parent = 0;
    TrackKind kind = TrackKind::group;
    std::string name;
    std::string description;
    std::int32_t rank = 0;  // its place among its siblings
  };
  void add_process(std::uint64_t track, std::int32_t pid, const std::string& name);
  void add_track(const Track& track);
  // That trace time `time_ns` was `unix_ns`, by the system's clock; nothing if nobody knows. Once,
  // before the first heap profile: readers drop one whose clock they do not know.
  void add_clock(std::int64_t time_ns, std::optional<std::int64_t> unix_ns);

  void begin_slice(std::uint64_t track, std::int64_t time_ns, std::string_view name);
  void end_slice(std::uint64_t track, std::int64_t time_ns);
  void add_counter(std::uint64_t track, std::int64_t time_ns, std::uint64_t value);

  struct Note {
    std::string_view name;
    std::string text;
  };
  void add_instant(std::uint64_t track, std::int64_t time_ns, std::string_view name,
                   const std::vector<Note>& notes);

  // An allocation: an instant with its call stack and bytes, and the counters that it changes.
  struct Allocation {
    std::uint64_t track = 0;
    std::int64_t time_ns = 0;
    std::string_view source;
    std::string_view provenance;  // of the source
    std::uint64_t bytes = 0;
    StackId stack;
    bool is_backward = false;
    std::string_view name;  // empty: none
    std::string_view tag;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> counters;  // track and value
  };
  void add_allocation(const Allocation& allocation);

  // Of heap profiles, which the UI draws as flame graphs.
  struct HeapSample {
    StackId stack;
    bool is_backward = false;
    std::uint64_t alloc_objects = 0;
    std::uint64_t alloc_bytes = 0;
    std::uint64_t inuse_objects = 0;
    std::uint64_t inuse_bytes = 0;
  };
  struct HeapProfile {
    std::string name;
    std::int64_t time_ns = 0;
    std::vector<HeapSample> samples;
  };
  // All of them at once: readers count the packets in order of time, to see that none is missing.
  void add_heap_profiles(std::int32_t pid, const std::vector<HeapProfile>& heaps);

  // The first failure, or that of closing the file.
  Status finish();

 private:
  class Packet;

  // One sample for each stack: readers take a second one for an error.
  static std::vector<HeapSample> by_stack(const std::vector<HeapSample>& samples);
  void flush(std::size_t at_least);

  std::unique_ptr<FileSink> file_;
  std::string buffer_;
  InternedData interned_;
  Status status_ = Done{};
  bool is_first_ = true;
};

}  // namespace gpumemprof
