#include "analysis/advice/run/allocation_timeline.h"

#include <algorithm>

namespace gpumemprof {
namespace {

enum class EdgeKind : std::uint8_t { freed, reusable, birth, command };

struct Edge {
  TimelineKey key = 0;
  std::uint32_t row = 0;
  EdgeKind kind = EdgeKind::birth;

  // At the same moment, frees come before new requests.
  bool operator<(const Edge& other) const {
    if (key != other.key) return key < other.key;
    if (kind != other.kind) return kind < other.kind;
    return row < other.row;
  }
};

std::vector<Edge> edges_of(const AllocationTimeline& timeline) {
  std::vector<Edge> edges;
  edges.reserve(2 * timeline.rows.size() + timeline.commands.size());
  for (std::uint32_t row = 0; row < timeline.rows.size(); ++row) {
    const TimelineRow& entry = timeline.rows[row];
    if (!entry.is_there() || entry.death <= entry.birth) continue;
    edges.push_back({entry.birth, row, EdgeKind::birth});
    if (entry.death != kTimelineEnd) edges.push_back({entry.death, row, EdgeKind::freed});
    if (entry.reusable != entry.death && entry.reusable != kTimelineEnd &&
        entry.death != kTimelineEnd)
      edges.push_back({std::max(entry.reusable, entry.death), row, EdgeKind::reusable});
  }
  for (std::uint32_t row = 0; row < timeline.commands.size(); ++row)
    edges.push_back({timeline.commands[row].key, row, EdgeKind::command});
  std::sort(edges.begin(), edges.end());
  return edges;
}

}  // namespace

TimelineRow& AllocationTimeline::insert(TimelineKey birth, TimelineKey death,
                                        std::uint64_t size_bytes, MemorySource source) {
  TimelineRow row;
  row.birth = birth;
  row.die_at(death);
  row.size_bytes = size_bytes;
  row.source = source;
  rows.push_back(row);
  return rows.back();
}

sim::RequestColumns AllocationTimeline::requests() const {
  sim::RequestColumns requests;
  for (std::size_t pool = 1; pool < pools.size(); ++pool) requests.add_pool(pools[pool]);
  for (const sim::StreamPoolKey& stream_pool : stream_pools)
    requests.stream_pools.push_back(stream_pool);
  std::vector<AllocationId> ids(rows.size());
  for (const Edge& edge : edges_of(*this)) {
    const std::uint32_t event = event_of(edge.key);
    if (edge.kind == EdgeKind::command) {
      requests.add(commands[edge.row].kind, commands[edge.row].operand, event);
      continue;
    }
    const TimelineRow& row = rows[edge.row];
    if (edge.kind == EdgeKind::birth) {
      ids[edge.row] = requests.add_allocation(row.size_bytes, sim::StreamPoolId(row.stream_pool));
      requests.add(sim::RequestKind::allocate, ids[edge.row].index, event);
      continue;
    }
    const bool is_plain = row.reusable == row.death;
    const sim::RequestKind kind = edge.kind == EdgeKind::reusable ? sim::RequestKind::complete_free
                                  : is_plain                      ? sim::RequestKind::free
                                                                  : sim::RequestKind::request_free;
    requests.add(kind, ids[edge.row].index, event);
  }
  return requests;
}

sim::AllocatedCurve AllocationTimeline::requested_curve(std::uint32_t events_per_point) const {
  sim::AllocatedCurve curve{events_per_point, {}};
  std::vector<std::uint64_t>& points = curve.most_bytes;
  std::uint64_t now = 0;
  for (const Edge& edge : edges_of(*this)) {
    if (edge.kind == EdgeKind::command || edge.kind == EdgeKind::reusable) continue;
    const std::uint32_t event = event_of(edge.key);
    const std::size_t point = event == kNoEvent ? 0 : event / events_per_point;
    while (points.size() <= point) points.push_back(now);
    const std::uint64_t bytes = rows[edge.row].size_bytes;
    now = edge.kind == EdgeKind::freed ? now - bytes : now + bytes;
    points[point] = std::max(points[point], now);
  }
  return curve;
}

TimelinePeak AllocationTimeline::peak(const AllocatorSettings* settings) const {
  TimelinePeak peak;
  std::uint64_t now = 0;
  for (const Edge& edge : edges_of(*this)) {
    if (edge.kind == EdgeKind::command || edge.kind == EdgeKind::reusable) continue;
    const std::uint64_t requested = rows[edge.row].size_bytes;
    const std::uint64_t bytes = settings == nullptr ? requested : settings->round_size(requested);
    if (edge.kind == EdgeKind::freed) {
      now -= bytes;
      continue;
    }
    now += bytes;
    if (now > peak.bytes) peak = {now, edge.key};
  }
  return peak;
}

}  // namespace gpumemprof
