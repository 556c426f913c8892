// Heap: the lists, dicts, tuples and wide numbers that a pickle builds and that did not become
// records.
//
// A list of records is kept as runs of consecutive rows: the millions of events of a trace are one
// run. A list of frames becomes a stack immediately. Everything is accessed by row number, so
// nothing nests and nothing recurses.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/column.h"
#include "ingest/pickle/value.h"

namespace gpumemprof::pickle {

struct Run {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// Rows of one kind of record, in list order.
struct RecordList {
  Tag kind = Tag::absent;
  std::vector<Run> runs;

  void append(std::uint32_t row) {
    if (!runs.empty() && runs.back().first + runs.back().count == row) {
      ++runs.back().count;
    } else {
      runs.push_back({row, 1});
    }
  }
};

struct WideInteger {
  std::uint64_t magnitude = 0;
  bool negative = false;
};

using DictItems = std::vector<std::pair<Value, Value>>;

class Heap {
 public:
  Value new_list() {
    lists_.push_back(Value());
    return {Tag::list, lists_.size() - 1};
  }
  Value new_dict() {
    dicts_.push_back(Value());
    return {Tag::dict, dicts_.size() - 1};
  }
  Value new_tuple(std::span<const Value> items);
  Value new_real(double number);
  Value new_wide_integer(WideInteger number);

  // What a list or dict has become: absent while empty, a stack or a record, or a row of the
  // general ones below.
  Value& list_slot(Value list) { return lists_[list.row()]; }
  Value& dict_slot(Value dict) { return dicts_[dict.row()]; }
  [[nodiscard]] Value list_slot(Value list) const { return lists_[list.row()]; }
  [[nodiscard]] Value dict_slot(Value dict) const { return dicts_[dict.row()]; }

  // Maps a dict that became a record to that record, and a list that became a stack to that stack.
  [[nodiscard]] Value resolve(Value value) const {
    if (value.is(Tag::dict)) {
      const Value slot = dict_slot(value);
      if (slot.is(Tag::frame) || is_record(slot.tag())) return slot;
    } else if (value.is(Tag::list)) {
      const Value slot = list_slot(value);
      if (slot.is(Tag::stack)) return slot;
    }
    return value;
  }

  void append(Value list, Value item);
  void set_item(Value dict, Value key, Value item);

  [[nodiscard]] std::span<const Value> tuple_items(Value tuple) const;
  // Null where the value is not a list, or is a list of something else.
  [[nodiscard]] const RecordList* records_of(Value list) const;
  [[nodiscard]] const std::vector<Value>* values_of(Value list) const;
  [[nodiscard]] bool is_empty_list(Value list) const {
    return list.is(Tag::list) && list_slot(list).is(Tag::absent);
  }
  [[nodiscard]] const DictItems* items_of(Value dict) const;
  [[nodiscard]] double real(Value value) const { return reals_[value.row()]; }
  [[nodiscard]] WideInteger wide_integer(Value value) const { return wide_integers_[value.row()]; }

  // The general items of a dict that is about to become a record; moved out of the dict.
  DictItems take_items(Value dict);

  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  void make_general(Value list);

  Column<Value> lists_;
  Column<Value> dicts_;
  Column<Value> tuple_items_;
  Column<double> reals_;
  Column<WideInteger> wide_integers_;
  std::vector<std::vector<Value>> general_lists_;
  std::vector<RecordList> record_lists_;
  std::vector<DictItems> general_dicts_;
  std::vector<std::uint32_t> unused_dicts_;
  std::size_t general_values_ = 0;
  std::size_t runs_ = 0;  // of all record lists
};

}  // namespace gpumemprof::pickle
