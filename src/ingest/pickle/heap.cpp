#include "ingest/pickle/heap.h"

#include "base/error.h"

namespace gpumemprof::pickle {

Value Heap::new_tuple(std::span<const Value> items) {
  const std::size_t start = tuple_items_.size();
  tuple_items_.push_back(Value(Tag::integer, items.size()));
  tuple_items_.append(items);
  return {Tag::tuple, start};
}

Value Heap::new_real(double number) {
  reals_.push_back(number);
  return {Tag::real, reals_.size() - 1};
}

Value Heap::new_wide_integer(WideInteger number) {
  wide_integers_.push_back(number);
  return {Tag::wide_integer, wide_integers_.size() - 1};
}

void Heap::append(Value list, Value item) {
  Value& slot = list_slot(list);
  if (slot.is(Tag::absent)) {
    if (is_record(item.tag())) {
      slot = Value(Tag::record_list, record_lists_.size());
      record_lists_.push_back({item.tag(), {}});
    } else {
      slot = Value(Tag::general_list, general_lists_.size());
      general_lists_.emplace_back();
    }
  }
  if (slot.is(Tag::record_list) && record_lists_[slot.row()].kind == item.tag()) {
    RecordList& records = record_lists_[slot.row()];
    const std::size_t runs_before = records.runs.size();
    records.append(item.row());
    runs_ += records.runs.size() - runs_before;
    return;
  }
  if (!slot.is(Tag::general_list)) make_general(list);
  if (!slot.is(Tag::general_list))
    return;  // the stack is complete; whatever is appended to it later is not a frame
  general_lists_[slot.row()].push_back(item);
  ++general_values_;
}

// A list that holds records and something else: rare, and never in a real snapshot.
void Heap::make_general(Value list) {
  Value& slot = list_slot(list);
  if (!slot.is(Tag::record_list)) return;
  const RecordList records = std::move(record_lists_[slot.row()]);
  std::vector<Value> values;
  for (const Run& run : records.runs) {
    for (std::uint32_t row = run.first; row < run.first + run.count; ++row)
      values.emplace_back(records.kind, row);
  }
  general_values_ += values.size();
  slot = Value(Tag::general_list, general_lists_.size());
  general_lists_.push_back(std::move(values));
}

void Heap::set_item(Value dict, Value key, Value item) {
  Value& slot = dict_slot(dict);
  if (slot.is(Tag::absent)) {
    if (unused_dicts_.empty()) {
      slot = Value(Tag::general_dict, general_dicts_.size());
      general_dicts_.emplace_back();
    } else {
      slot = Value(Tag::general_dict, unused_dicts_.back());
      unused_dicts_.pop_back();
    }
  }
  if (!slot.is(Tag::general_dict))
    return;  // already a record: fields that are added afterwards are ignored
  general_dicts_[slot.row()].emplace_back(key, item);
  general_values_ += 2;
}

DictItems Heap::take_items(Value dict) {
  Value& slot = dict_slot(dict);
  GMP_CHECK(slot.is(Tag::general_dict));
  DictItems items = std::move(general_dicts_[slot.row()]);
  general_dicts_[slot.row()].clear();
  unused_dicts_.push_back(slot.row());
  general_values_ -= 2 * items.size();
  slot = Value();
  return items;
}

std::span<const Value> Heap::tuple_items(Value tuple) const {
  const std::size_t start = tuple.payload();
  return tuple_items_.span().subspan(start + 1, tuple_items_[start].payload());
}

const RecordList* Heap::records_of(Value list) const {
  if (!list.is(Tag::list) || !list_slot(list).is(Tag::record_list)) return nullptr;
  return &record_lists_[list_slot(list).row()];
}

const std::vector<Value>* Heap::values_of(Value list) const {
  if (!list.is(Tag::list) || !list_slot(list).is(Tag::general_list)) return nullptr;
  return &general_lists_[list_slot(list).row()];
}

const DictItems* Heap::items_of(Value dict) const {
  if (!dict.is(Tag::dict) || !dict_slot(dict).is(Tag::general_dict)) return nullptr;
  return &general_dicts_[dict_slot(dict).row()];
}

std::size_t Heap::memory_bytes() const {
  // A record that is listed several times becomes as many rows when it is delivered.
  constexpr std::size_t kRunBytes = 64;
  return lists_.capacity_bytes() + dicts_.capacity_bytes() + tuple_items_.capacity_bytes() +
         reals_.capacity_bytes() + wide_integers_.capacity_bytes() +
         2 * general_values_ * sizeof(Value) +
         general_lists_.capacity() * sizeof(std::vector<Value>) +
         record_lists_.capacity() * 2 * sizeof(RecordList) + runs_ * kRunBytes +
         general_dicts_.capacity() * sizeof(DictItems);
}

}  // namespace gpumemprof::pickle
