#include "session/device_view.h"

namespace gpumemprof {

DeviceView::Grouped::Grouped(const DeviceView& view, GroupBy by)
    : grouping(
          view.run_groups_ == nullptr
              ? make_grouping(view.store(), view.record(), view.replay().peak_event, by)
              : make_grouping_as(view.store(), view.record(), by, view.run_groups_->groups(by))),
      sums(grouping, view.timeline().allocated(), view.record().allocations) {}

DeviceView::DeviceView(std::shared_ptr<const Recording> recording, std::size_t index,
                       const RunGroups* groups)
    : recording_(std::move(recording)),
      index_(index),
      run_groups_(groups),
      timeline_(record()),
      live_(record()) {
  if (!has_sources(record())) return;
  std::uint64_t all_bytes = 0;
  std::uint64_t known_bytes = 0;
  for (std::size_t row = 0; row < record().allocations.size(); ++row) {
    const std::uint64_t size = record().allocations.size_bytes[row];
    all_bytes += size;
    if (record().labels.source[row] != MemorySource::unknown) known_bytes += size;
  }
  are_sources_known_ = known_bytes >= all_bytes / 2;
}

bool DeviceView::has(GroupBy by) const { return by != GroupBy::source || has_sources(record()); }

std::vector<GroupBy> DeviceView::group_bys() const {
  std::vector<GroupBy> bys;
  for (const GroupBy by : kGroupBys) {
    if (has(by)) bys.push_back(by);
  }
  if (!are_sources_known_ && has(GroupBy::source)) {
    std::erase(bys, GroupBy::source);
    // Where modules are not known either, lines are used.
    bys.insert(bys.end(), GroupBy::source);
    std::erase(bys, GroupBy::line);
    bys.insert(bys.begin(), GroupBy::line);
  }
  return bys;
}

const DeviceView::Grouped& DeviceView::grouped(GroupBy by) const {
  const auto index = static_cast<std::size_t>(by);
  std::call_once(is_grouped_[index],
                 [&] { grouped_[index] = std::make_unique<Grouped>(*this, by); });
  return *grouped_[index];
}

const Spans& DeviceView::spans() const {
  std::call_once(has_spans_, [&] {
    spans_ = std::make_unique<Spans>(store(), record(), phases(), timeline());
  });
  return *spans_;
}

}  // namespace gpumemprof
