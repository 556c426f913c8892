// RowTable: the allocations of a run that a search finds, the first few in the order asked for.
// Memory does not grow with the run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/table/allocation_query.h"
#include "analysis/table/allocation_row.h"
#include "analysis/table/search_words.h"

namespace gpumemprof {

struct RowFilter {
  std::string words;  // as in AllocationFilter
  std::uint64_t min_size_bytes = 0;
  std::optional<DeviceIndex> device;
  // Only what is live then; empty: all. A device without a moment has nothing.
  std::map<DeviceIndex, Moment> live_at;
};

// Which rows a filter lets through.
class RowSearch {
 public:
  explicit RowSearch(RowFilter filter) : filter_(std::move(filter)) {}
  // The store is the same at every call.
  [[nodiscard]] bool matches(const Store& store, const AllocationRow& row);

 private:
  RowFilter filter_;
  std::unique_ptr<SearchWords> words_;
};

class RowTable {
 public:
  RowTable(AllocationOrder order, SortDirection direction, std::size_t most)
      : order_(order), direction_(direction), most_(most) {}

  void add(const AllocationRow& row);
  // In order; rows whose key is unknown come last.
  [[nodiscard]] std::vector<AllocationRow> take();
  [[nodiscard]] std::uint64_t matches() const { return matches_; }
  [[nodiscard]] std::uint64_t matching_bytes() const { return matching_bytes_; }

 private:
  struct Entry {
    std::optional<std::uint64_t> key;
    AllocationRow row;
    std::uint64_t number = 0;  // in the order in which rows came
  };
  [[nodiscard]] std::optional<std::uint64_t> key_of(const AllocationRow& row) const;
  [[nodiscard]] bool comes_before(const Entry& a, const Entry& b) const;
  void drop_last();

  AllocationOrder order_;
  SortDirection direction_;
  std::size_t most_;
  std::vector<Entry> entries_;
  std::uint64_t matches_ = 0;
  std::uint64_t matching_bytes_ = 0;
};

}  // namespace gpumemprof
