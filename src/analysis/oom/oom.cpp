#include "analysis/oom/oom.h"

namespace gpumemprof {

namespace {

OomCause cause_of(const OomReport& oom) {
  const std::uint64_t free_in_pool = oom.memory.free_bytes;
  if (free_in_pool >= oom.wanted_bytes) return OomCause::fragmentation;
  if (oom.device_free_bytes == kUnknownBytes) return OomCause::shortage;
  if (oom.device_free_bytes >= oom.wanted_bytes) return OomCause::limit;
  return oom.device_free_bytes + free_in_pool >= oom.wanted_bytes ? OomCause::fragmentation
                                                                  : OomCause::shortage;
}

}  // namespace

std::vector<OomReport> find_ooms(const DeviceRecord& record, const Store& store,
                                 std::size_t limit) {
  const EventColumns& events = record.events;
  std::vector<OomReport> reports;
  for (std::uint32_t event = 0; event < events.size() && reports.size() < limit; ++event) {
    if (events.action[event] != Action::oom) continue;
    OomReport report;
    report.event = event;
    report.wanted_bytes = events.size_bytes[event];
    report.device_free_bytes = events.address[event];
    report.stack = events.stack[event];
    report.memory = free_memory_at(record, store, Moment::after(event));
    for (const StreamShare& share : report.memory.streams) {
      if (share.stream == events.stream[event])
        report.largest_free_bytes = share.largest_free_bytes;
    }
    report.cause = cause_of(report);
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace gpumemprof
