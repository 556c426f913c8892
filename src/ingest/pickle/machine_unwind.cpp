// What can be recovered from a truncated pickle: every container that was still open is closed with
// the items it has.
#include "ingest/pickle/machine.h"

namespace gpumemprof::pickle {

// The opcodes that would have put items into the container never came. A pickle writes the
// container first, then its items above it, so each open container is right below its items. A dict
// that was still being filled is dropped, except the outermost: half an event is not an event.
void Machine::unwind() {
  while (!marks_.empty()) {
    const std::size_t first = marks_.back();
    marks_.pop_back();
    close_above_mark(first);
    if (first > 0) fill(first - 1, stack_.span().subspan(first));
    stack_.truncate(first);
  }
  close_without_marks();
  if (!stack_.empty()) root_ = settled(stack_[0]);
}

// Among the items above a mark only the last can be open: a list whose single item was still to be
// appended.
void Machine::close_above_mark(std::size_t first) {
  if (stack_.size() > first && stack_.back().is(Tag::dict)) stack_.pop_back();
  const bool are_siblings = first > 0 && stack_[first - 1].is(Tag::list);
  while (stack_.size() > first + 1) {
    const Value item = stack_.back();
    const Value below = stack_[stack_.size() - 2];
    if (!below.is(Tag::list) || item.is(Tag::text) || (are_siblings && item.is(Tag::list))) return;
    append_top(below);
  }
}

// Protocol 0 puts every item directly above its container, and a value above its key.
void Machine::close_without_marks() {
  while (stack_.size() > 1) {
    const Value item = stack_.back();
    const Value below = stack_[stack_.size() - 2];
    if (stack_.size() == 3 && below.is(Tag::text) && !item.is(Tag::dict)) {
      fill(0, stack_.span().subspan(1));
      stack_.truncate(1);
    } else if (below.is(Tag::list) && !item.is(Tag::dict)) {
      append_top(below);
    } else {
      stack_.pop_back();
    }
  }
}

void Machine::append_top(Value list) {
  const std::array<Value, 1> items = {stack_.back()};
  append_all(list, items);
  stack_.pop_back();
}

void Machine::fill(std::size_t container, std::span<const Value> items) {
  const Value target = stack_[container];
  if (target.is(Tag::dict) && container == 0) set_all(target, items);
  append_all(target, items);
}

}  // namespace gpumemprof::pickle
