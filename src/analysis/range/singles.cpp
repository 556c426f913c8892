#include "analysis/range/singles.h"

#include <algorithm>

namespace gpumemprof {
namespace {

struct SingleBand {
  double area = 0;
  std::uint32_t row = 0;
};

class SinglesFinder {
 public:
  SinglesFinder(const DeviceRecord& record, const EventTimes& times, const SinglesQuery& query)
      : rows_(record.allocations),
        events_(record.events.size()),
        times_(times),
        query_(query),
        is_timed_(query.axis == Axis::time && times.is_known()) {}

  void add(std::size_t row) {
    ++matches_;
    if (rows_.size_bytes[row] < query_.least_bytes) return;
    const std::uint32_t freed = rows_.free_requested_event[row];
    const Position birth = std::max(query_.from, birth_position(rows_.alloc_event[row]));
    const Position death =
        freed == kNoEvent ? query_.to : std::min(query_.to, position_after(freed));
    const std::int64_t length =
        is_timed_ ? time_at(death) - time_at(birth) : std::int64_t{death} - std::int64_t{birth};
    if (length < query_.least_length) return;
    const double area =
        static_cast<double>(rows_.size_bytes[row]) * static_cast<double>(length + 1);
    bands_.push_back({area, static_cast<std::uint32_t>(row)});
  }

  SinglesPage result() && {
    if (bands_.size() > query_.most) {
      const auto end = bands_.begin() + static_cast<std::ptrdiff_t>(query_.most);
      std::nth_element(bands_.begin(), end, bands_.end(),
                       [](const SingleBand& a, const SingleBand& b) {
                         return a.area != b.area ? a.area > b.area : a.row < b.row;
                       });
      bands_.erase(end, bands_.end());
    }
    SinglesPage page;
    page.matches = matches_;
    page.rows.reserve(bands_.size());
    for (const SingleBand& band : bands_) page.rows.emplace_back(band.row);
    std::sort(page.rows.begin(), page.rows.end());
    return page;
  }

 private:
  // When the event before a position happened. A range may end after the last position.
  [[nodiscard]] std::int64_t time_at(Position position) const {
    if (position == 0) return times_.first_ns();
    return position > events_ ? times_.last_ns() : times_.of_event(position - 1);
  }

  const AllocationColumns& rows_;
  std::size_t events_;
  const EventTimes& times_;
  const SinglesQuery& query_;
  bool is_timed_;
  std::vector<SingleBand> bands_;
  std::uint64_t matches_ = 0;
};

}  // namespace

SinglesPage find_singles(const DeviceRecord& record, const LiveRows& live, const EventTimes& times,
                         const SinglesQuery& given) {
  SinglesQuery query = given;
  query.to = std::min(query.to, static_cast<Position>(record.events.size() + 1));
  if (query.from >= query.to) return {};
  SinglesFinder finder(record, times, query);
  const Moment start = moment_of(query.from);
  for (const AllocationId row : live.active_at(query.from)) {
    if (record.allocations.is_allocated_at(row.index, start)) finder.add(row.index);
  }
  live.visit_born(query.from + 1, query.to - 1, [&](std::size_t row) { finder.add(row); });
  return std::move(finder).result();
}

}  // namespace gpumemprof
