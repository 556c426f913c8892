#include "analysis/oom/oom.h"

#include <algorithm>

#include "analysis/oom/bounds.h"
#include "analysis/oom/joined.h"
#include "analysis/oom/streamed_history.h"

namespace gpumemprof {
namespace {

// What a process takes for CUDA itself, its kernels and the usual libraries: it cannot be avoided.
constexpr std::uint64_t kUsualOutsideBytes = kGiB;

std::uint64_t capped_sum(std::uint64_t one, std::uint64_t other) {
  return one > kUnknownBytes - other ? kUnknownBytes : one + other;
}

std::uint64_t above(std::uint64_t bytes, std::uint64_t bound) {
  return bytes > bound ? bytes - bound : 0;
}

class Verdict {
 public:
  Verdict(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
          const std::vector<DeviceSample>& samples, HistoryPart part, SimulationDeadline deadline,
          OomReport& oom)
      : store_(store),
        record_(record),
        replay_(replay),
        samples_(samples),
        part_(part),
        deadline_(deadline),
        oom_(oom) {}

  // Requests that the record no longer holds.
  void count_earlier(std::uint64_t requests) { earlier_requests_ = requests; }
  void let_read_again(const WholeRun& whole) { whole_ = whole; }

  void find() {
    const bool is_known = replay_.exact_from_event && *replay_.exact_from_event <= oom_.event;
    if (!is_known) doubt(OomDoubt::history);
    card_ = card_at(store_, record_, samples_, oom_);
    oom_.card_bytes = card_.total_bytes;
    oom_.other_processes_bytes = card_.others_bytes;
    oom_.outside_bytes = card_.outside_bytes;
    if (is_larger_than_card()) {
      oom_.cause = OomCause::larger_than_card;
      oom_.doubts.clear();  // whatever the pool held
      return;
    }
    needed_bytes_ = capped_sum(oom_.in_use_bytes(), oom_.wanted_bytes);
    if (const std::optional<ProcessLimit> limit =
            limit_at(store_, record_, replay_, part_, whole_, oom_)) {
      oom_.limit = limit->bytes;
      oom_.is_limit_stated = limit->is_stated;
    }
    const std::optional<ByteRange> room = room_of_pool();
    if (room && is_in_private_pools(*room)) return;
    if (room && needed_bytes_ <= room->high && is_fragmented(*room)) return;
    if (room && is_deferred(*room)) return;
    if (room) {
      oom_.short_bytes =
          ByteRange{above(needed_bytes_, room->high), above(needed_bytes_, room->low)};
    }
    binds_limit_ ? blame_limit() : blame_card();
    if (room) blame_request(*room);
  }

 private:
  void doubt(OomDoubt reason) { oom_.doubts.push_back(reason); }

  // The simulator's largest request is more than any card has.
  [[nodiscard]] bool is_larger_than_card() const {
    if (oom_.wanted_bytes > sim::kMaxRequestBytes) return true;
    return card_.total_bytes && oom_.wanted_bytes > *card_.total_bytes;
  }

  // The most that the pool could have held: the tighter of the two bounds.
  std::optional<ByteRange> room_of_pool() {
    std::optional<ByteRange> room;
    if (oom_.device_free_bytes != kUnknownBytes) {
      const std::uint64_t bytes = capped_sum(oom_.memory.reserved_bytes, oom_.device_free_bytes);
      room = ByteRange{bytes, bytes};
    }
    if (oom_.limit && (!room || oom_.limit->high <= room->high)) {
      room = oom_.limit;
      binds_limit_ = true;
    }
    return room;
  }

  // There was enough for certain, or perhaps: then only if gaps were more than a small remainder.
  bool is_fragmented(const ByteRange& room) {
    const bool is_certain = needed_bytes_ <= room.low;
    constexpr std::uint64_t kParts = 20;
    const bool is_gappy = oom_.memory.free_bytes * kParts >= oom_.memory.reserved_bytes;
    if (!is_certain && (!is_gappy || oom_.memory.free_bytes == 0)) return false;
    const std::uint64_t bytes = is_certain ? room.low : room.high;
    sim::MemoryLimit limit;
    (binds_limit_ ? limit.allowed_bytes : limit.device_bytes) = bytes;
    JoinedRuns::Answer answer;
    if (whole_.history != nullptr) {
      answer = whole_.history->survivors(whole_.event, limit);
    } else if (part_ == HistoryPart::whole) {
      answer = JoinedRuns(store_, record_, replay_, deadline_).survivors(oom_.event, limit);
    }
    oom_.is_simulation_skipped = answer.is_late;
    if (!is_certain && answer.surviving_confs.empty()) {
      if (answer.is_late) doubt(OomDoubt::not_tried);
      return false;
    }
    oom_.cause = OomCause::fragmentation;
    oom_.surviving_confs = std::move(answer.surviving_confs);
    oom_.surviving_reserved_bytes = answer.reserved_bytes;
    if (!is_certain) doubt(OomDoubt::limit);
    // A free piece that was large enough would have served the request: then gaps are a guess.
    const bool is_proven = is_certain && oom_.largest_free_bytes < oom_.wanted_bytes;
    std::vector<OomDoubt>& doubts = is_proven ? oom_.remedy_doubts : oom_.doubts;
    if (!answer.is_tried) {
      doubts.push_back(OomDoubt::not_tried);
    } else if (!answer.is_exact) {
      doubts.push_back(OomDoubt::simulation);
    } else if (oom_.surviving_confs.empty()) {
      doubts.push_back(OomDoubt::no_setting);
    }
    if (binds_limit_) oom_.contributing.push_back(OomCause::limit);
    return true;
  }

  // Enough was free, but not for this request: only the pool's owner may use it.
  bool is_in_private_pools(const ByteRange& room) {
    const std::uint64_t kept = oom_.memory.private_pool_bytes;
    // A request inside such a pool may use some of it.
    const bool is_inside = store_.pool(record_.events.row(oom_.event).pool) != PoolId{};
    if (kept == 0 || is_inside || needed_bytes_ > room.low) return false;
    if (capped_sum(needed_bytes_, kept) <= room.high) return false;
    oom_.cause = OomCause::private_pool;
    if (binds_limit_) oom_.contributing.push_back(OomCause::limit);
    return true;
  }

  // torch waits for streams before it gives up, except while a graph is being captured.
  bool is_deferred(const ByteRange& room) {
    const std::uint64_t waiting = oom_.memory.waiting_bytes;
    if (waiting == 0 || needed_bytes_ - waiting > room.low) return false;
    oom_.short_bytes = ByteRange{above(needed_bytes_, room.high), above(needed_bytes_, room.low)};
    oom_.cause = OomCause::deferred_frees;
    if (binds_limit_) oom_.contributing.push_back(OomCause::limit);
    return true;
  }

  // A request out of all proportion to what the program asked for before: a wrong shape, perhaps.
  void blame_request(const ByteRange& room) {
    constexpr std::uint64_t kFewest = 8;
    constexpr std::uint64_t kTimes = 8;
    const AllocationColumns& rows = record_.allocations;
    std::uint64_t count = earlier_requests_;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.alloc_event[row] != kNoEvent && rows.alloc_event[row] > oom_.event) continue;
      oom_.largest_earlier_bytes = std::max(oom_.largest_earlier_bytes, rows.requested_bytes[row]);
      ++count;
    }
    const bool is_large = oom_.wanted_bytes > room.high / 2;
    const bool is_unusual = oom_.wanted_bytes / kTimes >= oom_.largest_earlier_bytes;
    if (count < kFewest || !is_large || !is_unusual || oom_.hoarded_blocks > 0) return;
    if (oom_.cause == OomCause::shortage) {
      oom_.cause = OomCause::single_request;
      oom_.contributing.push_back(OomCause::shortage);
    } else if (oom_.cause == OomCause::limit) {
      oom_.contributing.push_back(OomCause::single_request);
    }
  }

  // The card had room. If one line fills whatever it is given, a higher limit changes nothing.
  void blame_limit() {
    oom_.hoarded_blocks = hoarded_blocks();
    const bool is_hoard = oom_.hoarded_blocks > 0;
    oom_.cause = is_hoard ? OomCause::shortage : OomCause::limit;
    oom_.contributing.push_back(is_hoard ? OomCause::limit : OomCause::shortage);
  }

  // Blocks of the requested size, allocated where the request was made, that fill the pool and none
  // of which was ever freed. 0 if memory is held in another way.
  [[nodiscard]] std::uint64_t hoarded_blocks() const {
    constexpr std::uint64_t kFew = 8;
    const AllocationColumns& rows = record_.allocations;
    if (oom_.stack.is_none()) return 0;
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::uint32_t birth = rows.alloc_event[row];
      if (rows.stack[row] != oom_.stack || birth == kNoEvent || birth > oom_.event) continue;
      if (rows.free_requested_event[row] < oom_.event) return 0;
      if (store_.settings().round_size(rows.requested_bytes[row]) != oom_.wanted_bytes) return 0;
      bytes += rows.size_bytes[row];
      ++blocks;
    }
    const bool fills = bytes / 9 * 10 >= oom_.in_use_bytes();
    if (blocks < kFew || !fills) return 0;
    // What a window no longer holds.
    if (whole_.history != nullptr &&
        whole_.history->is_varied(oom_.stack, oom_.wanted_bytes, whole_.event))
      return 0;
    return blocks;
  }

  // The card itself had no room: who holds memory that would have sufficed?
  void blame_card() {
    oom_.cause = OomCause::shortage;
    if (!oom_.short_bytes || !card_.total_bytes) {
      doubt(OomDoubt::card);
      return;
    }
    const std::uint64_t short_bytes = oom_.short_bytes->high;
    std::uint64_t others = card_.others_bytes.value_or(0);
    const std::uint64_t outside = above(card_.outside_bytes.value_or(0), kUsualOutsideBytes);
    if (!card_.others_bytes && card_.taken_bytes)
      others = above(*card_.taken_bytes, kUsualOutsideBytes);
    // Only a shortage verdict can be reached without knowing who held what.
    const bool can_suffice = capped_sum(others, outside) >= short_bytes;
    if (!card_.is_attributed) doubt(OomDoubt::processes);
    if (!can_suffice) return;
    const bool is_by_others = others >= outside;
    oom_.cause = is_by_others ? OomCause::other_processes : OomCause::outside_pool;
    const std::uint64_t rest = is_by_others ? outside : others;
    if (rest > 0) {
      oom_.contributing.push_back(is_by_others ? OomCause::outside_pool
                                               : OomCause::other_processes);
    }
  }

  const Store& store_;
  const DeviceRecord& record_;
  const DeviceReplay& replay_;
  const std::vector<DeviceSample>& samples_;
  HistoryPart part_;
  WholeRun whole_;
  SimulationDeadline deadline_;
  OomReport& oom_;
  CardState card_;
  std::uint64_t needed_bytes_ = 0;
  std::uint64_t earlier_requests_ = 0;
  bool binds_limit_ = false;
};

OomReport read_oom(const Store& store, const DeviceRecord& record, std::uint32_t event) {
  const EventColumns& events = record.events;
  OomReport report;
  report.event = event;
  report.wanted_bytes = events.size_bytes[event];
  report.device_free_bytes = events.address[event];
  report.stack = events.stack[event];
  report.memory = free_memory_at(record, store, Moment::after(event));
  for (const StreamShare& share : report.memory.streams) {
    if (share.stream == events.stream[event]) report.largest_free_bytes = share.largest_free_bytes;
  }
  return report;
}

std::vector<DeviceSample> samples_of(const Store& store, DeviceIndex device) {
  std::vector<DeviceSample> samples = store.samples();
  std::erase_if(samples, [&](const DeviceSample& sample) { return sample.device != device; });
  return samples;
}

}  // namespace

std::string_view oom_cause_name(OomCause cause) {
  switch (cause) {
    case OomCause::larger_than_card:
      return "larger_than_card";
    case OomCause::limit:
      return "limit";
    case OomCause::other_processes:
      return "other_processes";
    case OomCause::outside_pool:
      return "outside_pool";
    case OomCause::private_pool:
      return "private_pool";
    case OomCause::deferred_frees:
      return "deferred_frees";
    case OomCause::fragmentation:
      return "fragmentation";
    case OomCause::growth:
      return "growth";
    case OomCause::single_request:
      return "single_request";
    case OomCause::shortage:
      break;
  }
  return "shortage";
}

std::string_view oom_doubt_name(OomDoubt doubt) {
  switch (doubt) {
    case OomDoubt::history:
      return "history";
    case OomDoubt::limit:
      return "limit";
    case OomDoubt::card:
      return "card";
    case OomDoubt::processes:
      return "processes";
    case OomDoubt::simulation:
      return "simulation";
    case OomDoubt::no_setting:
      return "no_setting";
    case OomDoubt::not_tried:
      break;
  }
  return "not_tried";
}

OomReport oom_at(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                 const std::vector<DeviceSample>& samples, std::uint32_t event, HistoryPart part,
                 EarlierRequests earlier) {
  OomReport report = read_oom(store, record, event);
  report.largest_earlier_bytes = earlier.largest_bytes;
  Verdict verdict(store, record, replay, samples, part, {}, report);
  verdict.count_earlier(earlier.count);
  verdict.find();
  return report;
}

OomReport oom_in_window(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                        const std::vector<DeviceSample>& samples, std::uint32_t event,
                        EarlierRequests earlier, const WholeRun& whole) {
  OomReport report = read_oom(store, record, event);
  report.largest_earlier_bytes = earlier.largest_bytes;
  Verdict verdict(store, record, replay, samples, HistoryPart::window, {}, report);
  verdict.count_earlier(earlier.count);
  verdict.let_read_again(whole);
  verdict.find();
  return report;
}

std::vector<OomReport> find_ooms(const Store& store, const DeviceRecord& record,
                                 const DeviceReplay& replay, std::size_t limit) {
  const EventColumns& events = record.events;
  const std::vector<DeviceSample> samples = samples_of(store, record.device);
  std::vector<OomReport> reports;
  for (std::uint32_t event = 0; event < events.size() && reports.size() < limit; ++event) {
    if (events.action[event] != Action::oom) continue;
    reports.push_back(oom_at(store, record, replay, samples, event, HistoryPart::whole));
  }
  return reports;
}

OomReport find_oom_at(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                      std::uint32_t event, const SimulationDeadline& deadline) {
  OomReport report = read_oom(store, record, event);
  const std::vector<DeviceSample> samples = samples_of(store, record.device);
  Verdict(store, record, replay, samples, HistoryPart::whole, deadline, report).find();
  return report;
}

namespace {

// Of memory that grew by this much until the failure.
void blame_grown_bytes(OomReport& oom, std::uint64_t grown_bytes) {
  oom.grown_bytes = grown_bytes;
  if (oom.cause == OomCause::fragmentation) {
    if (*oom.grown_bytes < std::max(oom.wanted_bytes, oom.memory.free_bytes)) return;
    // What was doubtful about the gaps is not about the growth.
    std::erase_if(oom.doubts, [](OomDoubt doubt) { return doubt != OomDoubt::history; });
    oom.remedy_doubts.clear();
  } else {
    const bool is_shortage = oom.cause == OomCause::shortage || oom.cause == OomCause::limit;
    if (!is_shortage || oom.hoarded_blocks > 0 || !oom.short_bytes) return;
    if (*oom.grown_bytes < oom.short_bytes->high) return;
  }
  std::erase(oom.contributing, OomCause::shortage);
  oom.contributing.insert(oom.contributing.begin(), oom.cause);
  oom.cause = OomCause::growth;
}

}  // namespace

void blame_growth(OomReport& oom, const Growth& growth, std::optional<std::uint64_t> step) {
  if (!growth.is_growing || !step || *step <= growth.since_step) return;
  const double steps = static_cast<double>(*step - growth.since_step);
  const auto grown = static_cast<std::uint64_t>(growth.bytes_per_step * steps);
  blame_grown_bytes(oom, std::min(grown, growth.grown_bytes));
}

void blame_leaks(OomReport& oom, const DeviceLeaks& leaks, std::size_t events) {
  constexpr std::size_t kParts = 20;
  const bool is_near_end = events - std::min<std::size_t>(events, oom.event) <= events / kParts;
  if (leaks.verdict != LeakVerdict::leak || oom.cause == OomCause::growth || !is_near_end) return;
  std::uint64_t grown = 0;
  for (const LeakSite& leak : leaks.leaks) grown += leak.bytes;
  blame_grown_bytes(oom, grown);
}

}  // namespace gpumemprof
