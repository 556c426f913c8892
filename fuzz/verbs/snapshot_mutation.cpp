#include "verbs/snapshot_mutation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "verbs/text_mutation.h"

namespace gpumemprof::fuzz {
namespace {

using List = PythonValue::List;
using Dict = PythonValue::Dict;
using Integer = PythonValue::Integer;

constexpr std::size_t kMostEvents = 3000;

class Mutation {
 public:
  Mutation(PythonValue& snapshot, Choices& choices) : snapshot_(snapshot), choices_(choices) {}

  void run() {
    for (std::size_t changes = std::size_t{1} << choices_.below(6); changes > 0; --changes)
      change();
  }

 private:
  void change() {
    List* events = any_trace();
    switch (choices_.below(20)) {
      case 0:
        if (events != nullptr) drop_frames(*events);
        break;
      case 1:
        if (events != nullptr) drop_frames_of_a_range(*events);
        break;
      case 2:
      case 3:
        if (events != nullptr) drop_range(*events);
        break;
      case 4:
        if (events != nullptr) repeat_range(*events);
        break;
      case 5:
        if (events != nullptr) move_range(*events);
        break;
      case 6:
        if (events != nullptr && !events->empty())
          std::swap((*events)[any(*events)], (*events)[any(*events)]);
        break;
      case 7:
      case 8:
      case 9:
        if (events != nullptr && !events->empty()) change_record((*events)[any(*events)]);
        break;
      case 10:
        if (events != nullptr) change_all(*events);
        break;
      case 11:
        if (events != nullptr) change_frames(*events);
        break;
      case 12:
      case 13:
        change_segments();
        break;
      case 14:
        change_devices();
        break;
      case 15:
        change_annotations();
        break;
      case 16:
        change_settings();
        break;
      case 17:
        if (auto* dict = std::get_if<Dict>(&snapshot_.data)) change_keys(*dict);
        break;
      case 18:
        change_anything(snapshot_);
        break;
      default:
        if (events != nullptr) events->resize(choices_.below(events->size() + 1));
    }
  }

  std::size_t any(const List& list) { return choices_.below(list.size()); }
  std::ptrdiff_t place(const List& list) {
    return static_cast<std::ptrdiff_t>(choices_.below(list.size() + 1));
  }

  List* any_trace() {
    List* traces = snapshot_.list("device_traces");
    if (traces == nullptr || traces->empty()) return nullptr;
    return std::get_if<List>(&(*traces)[any(*traces)].data);
  }

  void drop_frames(List& events) {
    const std::size_t chances = std::size_t{1} << choices_.below(9);
    for (PythonValue& event : events) {
      if (!choices_.one_in(chances)) continue;
      if (List* frames = event.list("frames")) frames->clear();
    }
  }
  void drop_frames_of_a_range(List& events) {
    const std::size_t first = any(events);
    const std::size_t count = choices_.below(events.size() - first + 1);
    for (std::size_t index = first; index < first + count; ++index) {
      if (List* frames = events[index].list("frames")) frames->clear();
    }
  }

  struct Range {
    std::ptrdiff_t first;
    std::ptrdiff_t end;
  };
  Range range(const List& list) {
    std::ptrdiff_t first = place(list);
    std::ptrdiff_t end = choices_.one_in(3) ? first + 1 : place(list);
    if (end < first) std::swap(first, end);
    return {first, std::min(end, std::ssize(list))};
  }
  void drop_range(List& list) {
    const Range taken = range(list);
    list.erase(list.begin() + taken.first, list.begin() + taken.end);
  }
  void repeat_range(List& list) {
    if (list.size() > kMostEvents) return;
    const Range taken = range(list);
    const List copy(list.begin() + taken.first, list.begin() + taken.end);
    list.insert(list.begin() + place(list), copy.begin(), copy.end());
  }
  void move_range(List& list) {
    const Range taken = range(list);
    List moved(list.begin() + taken.first, list.begin() + taken.end);
    list.erase(list.begin() + taken.first, list.begin() + taken.end);
    list.insert(list.begin() + place(list), moved.begin(), moved.end());
  }

  // Changes one field of an event, a block or a segment to something else.
  void change_record(PythonValue& record) {
    auto* dict = std::get_if<Dict>(&record.data);
    if (dict == nullptr || dict->empty()) return;
    if (choices_.one_in(8)) return change_keys(*dict);
    auto& [key, value] = (*dict)[choices_.below(dict->size())];
    const auto* name = std::get_if<std::string>(&key.data);
    if (name != nullptr && *name == "action") {
      value = PythonValue::of(std::string(action()));
      return;
    }
    change_value(value);
  }

  std::string_view action() {
    constexpr std::string_view kActions[] = {"alloc",
                                             "free",
                                             "free_requested",
                                             "free_completed",
                                             "segment_alloc",
                                             "segment_free",
                                             "segment_map",
                                             "segment_unmap",
                                             "snapshot",
                                             "oom",
                                             "annotate",
                                             "no_such_thing",
                                             ""};
    return kActions[choices_.below(std::size(kActions))];
  }

  void change_value(PythonValue& value) {
    if (auto* number = std::get_if<Integer>(&value.data)) {
      if (!choices_.one_in(5)) {
        number->magnitude = odd_number(choices_, number->magnitude);
        number->is_negative = choices_.one_in(6);
        number->shift = choices_.one_in(12) ? 8 * static_cast<std::uint32_t>(choices_.below(9)) : 0;
        return;
      }
    } else if (auto* text = std::get_if<std::string>(&value.data)) {
      if (!choices_.one_in(4)) return change_text(*text, choices_);
    } else if (auto* list = std::get_if<List>(&value.data)) {
      if (!list->empty() && !choices_.one_in(4)) {
        return choices_.one_in(2) ? drop_range(*list) : change_value((*list)[any(*list)]);
      }
    } else if (std::holds_alternative<Dict>(value.data) && !choices_.one_in(4)) {
      return change_record(value);
    }
    value = other_value();
  }

  PythonValue other_value() {
    switch (choices_.below(10)) {
      case 0:
        return {PythonValue::None{}};
      case 1:
        return {choices_.one_in(2)};
      case 2:
        return {Integer{odd_number(choices_, 0), choices_.one_in(2), 0}};
      case 3:
        return {std::numeric_limits<double>::quiet_NaN()};
      case 4:
        return {-std::numeric_limits<double>::infinity()};
      case 5:
        return {static_cast<double>(choices_.number())};
      case 6:
        return {List{}};
      case 7:
        return {Dict{}};
      case 8:
        return {PythonValue::Tuple{{PythonValue::of(choices_.number()), {PythonValue::None{}}}}};
      default:
        return PythonValue::of(std::string("text"));
    }
  }

  void change_keys(Dict& dict) {
    if (dict.empty()) return;
    const auto at = static_cast<std::ptrdiff_t>(choices_.below(dict.size()));
    switch (choices_.below(4)) {
      case 0:
        dict.push_back(dict[static_cast<std::size_t>(at)]);
        break;
      case 1:
        dict[static_cast<std::size_t>(at)].first = other_value();
        break;
      case 2:
        std::swap(dict[static_cast<std::size_t>(at)].second,
                  dict[choices_.below(dict.size())].second);
        break;
      default:
        dict.erase(dict.begin() + at);
    }
  }

  // The same change to one field of every event: sizes of 0, times that stand still or run
  // backwards.
  void change_all(List& events) {
    constexpr std::string_view kFields[] = {"size", "addr", "time_us", "stream", "device_free"};
    const std::string_view field = kFields[choices_.below(std::size(kFields))];
    const std::uint64_t constant = odd_number(choices_, 4096);
    const std::size_t kind = choices_.below(5);
    std::uint64_t counter = 0;
    for (PythonValue& event : events) {
      PythonValue* value = event.find(field);
      auto* number = value == nullptr ? nullptr : std::get_if<Integer>(&value->data);
      if (number == nullptr) continue;
      ++counter;
      if (kind == 0) number->magnitude = constant;
      if (kind == 1) number->magnitude = constant - counter;
      if (kind == 2) number->magnitude *= 1 + constant % 1024;
      if (kind == 3) number->magnitude /= 1 + constant % 1024;
      if (kind == 4) number->is_negative = !number->is_negative;
    }
  }

  void change_frames(List& events) {
    if (events.empty()) return;
    List* frames = events[any(events)].list("frames");
    if (frames == nullptr || frames->empty()) return;
    switch (choices_.below(4)) {
      case 0:
        return drop_range(*frames);
      case 1:
        std::reverse(frames->begin(), frames->end());
        return;
      case 2: {
        const List* other = events[any(events)].list("frames");
        if (other != nullptr) *frames = List(*other);
        return;
      }
      default:
        change_record((*frames)[any(*frames)]);
    }
  }

  void change_segments() {
    List* segments = snapshot_.list("segments");
    if (segments == nullptr || segments->empty()) return;
    PythonValue& segment = (*segments)[any(*segments)];
    List* blocks = segment.list("blocks");
    switch (choices_.below(7)) {
      case 0:
        return drop_range(*segments);
      case 1:
        if (segments->size() < kMostEvents) repeat_range(*segments);
        return;
      case 2:
        return move_range(*segments);
      case 3:
        if (blocks != nullptr) drop_range(*blocks);
        return;
      case 4:
        if (blocks != nullptr && blocks->size() < kMostEvents) repeat_range(*blocks);
        return;
      case 5:
        if (blocks != nullptr && !blocks->empty()) change_record((*blocks)[any(*blocks)]);
        return;
      default:
        change_record(segment);
    }
  }

  void change_devices() {
    List* traces = snapshot_.list("device_traces");
    if (traces == nullptr) return;
    if (choices_.one_in(8)) {
      for (std::size_t more = choices_.below(40); more > 0; --more) traces->push_back({List{}});
      return;
    }
    if (choices_.one_in(4) && traces->size() < 6 && !traces->empty()) {
      const PythonValue copy = (*traces)[any(*traces)];
      traces->push_back(copy);
      return;
    }
    if (choices_.one_in(3)) return move_range(*traces);
    List* segments = snapshot_.list("segments");
    if (segments == nullptr || segments->empty()) return;
    if (PythonValue* device = (*segments)[any(*segments)].find("device"))
      *device = PythonValue::of(choices_.below(choices_.one_in(4) ? 70000 : 4));
  }

  void change_annotations() {
    List* annotations = snapshot_.list("external_annotations");
    if (annotations == nullptr) {
      if (auto* root = std::get_if<Dict>(&snapshot_.data))
        root->emplace_back(PythonValue::of(std::string("external_annotations")),
                           PythonValue{List{}});
      return;
    }
    if (!annotations->empty() && !choices_.one_in(3)) {
      return choices_.one_in(2) ? drop_range(*annotations)
                                : change_record((*annotations)[any(*annotations)]);
    }
    Dict made;
    made.emplace_back(PythonValue::of(std::string("name")),
                      PythonValue::of("ProfilerStep#" + std::to_string(choices_.below(9))));
    made.emplace_back(PythonValue::of(std::string("stage")),
                      PythonValue::of(std::string(choices_.one_in(2) ? "START" : "END")));
    made.emplace_back(PythonValue::of(std::string("device")), PythonValue::of(choices_.below(3)));
    made.emplace_back(PythonValue::of(std::string("time_us")),
                      PythonValue::of(odd_number(choices_, 1'700'000'000'000'000)));
    annotations->insert(annotations->begin() + place(*annotations), PythonValue{std::move(made)});
  }

  void change_settings() {
    PythonValue* settings = snapshot_.find("allocator_settings");
    if (settings != nullptr) change_record(*settings);
  }

  // Changes something somewhere in the tree.
  void change_anything(PythonValue& value) {
    if (auto* list = std::get_if<List>(&value.data); list != nullptr && !list->empty()) {
      if (!choices_.one_in(8)) return change_anything((*list)[any(*list)]);
    } else if (auto* dict = std::get_if<Dict>(&value.data); dict != nullptr && !dict->empty()) {
      if (!choices_.one_in(8)) return change_anything((*dict)[choices_.below(dict->size())].second);
    }
    change_value(value);
  }

  PythonValue& snapshot_;
  Choices& choices_;
};

}  // namespace

void mutate_snapshot(PythonValue& snapshot, Choices& choices) { Mutation(snapshot, choices).run(); }

}  // namespace gpumemprof::fuzz
