#include "analysis/tags/tags.h"

#include <algorithm>
#include <unordered_map>

namespace gpumemprof {
namespace {

constexpr std::size_t kNamesKept = 100;

// How much is live under each tag after each event, and its maximum. Uses only births and deaths of
// tagged allocations: a program tags few of them.
class MostEver {
 public:
  void add(std::uint32_t birth, std::uint32_t death, std::size_t tag, std::uint64_t bytes) {
    const auto change = static_cast<std::int64_t>(bytes);
    changes_.push_back({birth, tag, change});
    if (death != kNoEvent) changes_.push_back({death, tag, -change});
  }

  void fill(std::vector<TagFigures>& tags) {
    std::ranges::sort(changes_, {}, &Change::event);
    std::vector<std::int64_t> live(tags.size(), 0);
    for (const Change& change : changes_) {
      live[change.tag] += change.bytes;
      const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(live[change.tag], 0));
      tags[change.tag].bytes_max = std::max(tags[change.tag].bytes_max, now);
    }
  }

 private:
  struct Change {
    std::uint32_t event = 0;
    std::size_t tag = 0;
    std::int64_t bytes = 0;
  };
  std::vector<Change> changes_;
};

void find_names(const DeviceRecord& record, Moment moment, TagReport& report) {
  const AllocationLabels& labels = record.labels;
  if (labels.name.size() != record.allocations.size()) return;
  for (std::size_t row = 0; row < labels.name.size(); ++row) {
    if (labels.name[row].is_none() || !record.allocations.is_allocated_at(row, moment)) continue;
    const std::uint64_t bytes = record.allocations.size_bytes[row];
    report.largest.push_back(
        {labels.name[row], labels.source[row], labels.is_measured(row), bytes});
    report.named_bytes += bytes;
    ++report.named_blocks;
  }
  std::ranges::stable_sort(report.largest, std::ranges::greater(), &NamedTensor::bytes);
  if (report.largest.size() > kNamesKept) report.largest.resize(kNamesKept);
}

}  // namespace

StringId tag_of(const DeviceRecord& record, std::size_t allocation) {
  const Column<StringId>& tags = record.events.user_metadata;
  const std::uint32_t birth = record.allocations.alloc_event[allocation];
  return birth < tags.size() ? tags[birth] : StringId();
}

bool has_tags(const DeviceRecord& record) {
  return std::ranges::any_of(record.events.user_metadata,
                             [](StringId tag) { return !tag.is_none(); });
}

TagReport find_tags(const DeviceRecord& record, Moment moment) {
  TagReport report;
  find_names(record, moment, report);
  if (record.events.user_metadata.empty()) return report;
  std::unordered_map<std::uint32_t, std::size_t> places;
  MostEver most;
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const StringId tag = tag_of(record, row);
    if (tag.is_none()) continue;
    const auto [place, is_new] = places.try_emplace(tag.index, report.tags.size());
    if (is_new) report.tags.push_back({tag});
    TagFigures& figures = report.tags[place->second];
    ++figures.allocations;
    most.add(rows.alloc_event[row], rows.free_requested_event[row], place->second,
             rows.size_bytes[row]);
    if (!rows.is_allocated_at(row, moment)) continue;
    figures.bytes += rows.size_bytes[row];
    ++figures.blocks;
  }
  most.fill(report.tags);
  std::ranges::stable_sort(report.tags, std::ranges::greater(), &TagFigures::bytes_max);
  return report;
}

}  // namespace gpumemprof
