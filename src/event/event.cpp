#include "event/event.h"

#include <array>

#include "base/error.h"

namespace gpumemprof {
namespace {

constexpr std::array<std::string_view, kActionCount> kActionNames = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "snapshot",
    "oom",          "annotate",       "other",          "placed"};

// Keeps an optional column empty until the first row that has a value for it.
template <typename T>
void push_optional(Column<T>& column, std::size_t row, T value, T absent) {
  if (column.empty()) {
    if (value == absent) return;
    column.resize(row, absent);
  }
  column.push_back(value);
}

template <typename T>
void append_optional(Column<T>& column, std::size_t row, const Column<T>& other, std::size_t first,
                     std::size_t count, T absent) {
  if (other.empty() && column.empty()) return;
  if (column.empty()) column.resize(row, absent);
  if (other.empty()) {
    column.resize(row + count, absent);
  } else {
    column.append(other.span().subspan(first, count));
  }
}

}  // namespace

std::string_view action_name(Action action) {
  return kActionNames[static_cast<std::size_t>(action)];
}

Action action_from_name(std::string_view name) {
  for (std::size_t index = 0; index < kActionNames.size(); ++index) {
    if (kActionNames[index] == name) return static_cast<Action>(index);
  }
  return Action::other;
}

Event EventColumns::row(std::size_t index) const {
  GMP_CHECK(index < size());
  Event event;
  event.action = action[index];
  event.address = address[index];
  event.size_bytes = size_bytes[index];
  event.stream = stream[index];
  event.time_ns = time_ns[index];
  event.stack = stack[index];
  if (!compile_context.empty()) event.compile_context = compile_context[index];
  if (!user_metadata.empty()) event.user_metadata = user_metadata[index];
  if (!pool.empty()) event.pool = pool[index];
  if (!forward_stack.empty()) event.forward_stack = forward_stack[index];
  if (!module.empty()) event.module = module[index];
  return event;
}

void EventColumns::push_back(const Event& event) {
  const std::size_t row = size();
  push_optional(compile_context, row, event.compile_context, StringId());
  push_optional(user_metadata, row, event.user_metadata, StringId());
  push_optional(pool, row, event.pool, kNoPool);
  push_optional(forward_stack, row, event.forward_stack, StackId());
  push_optional(module, row, event.module, kNoModule);
  action.push_back(event.action);
  address.push_back(event.address);
  size_bytes.push_back(event.size_bytes);
  stream.push_back(event.stream);
  time_ns.push_back(event.time_ns);
  stack.push_back(event.stack);
}

void EventColumns::append(const EventColumns& other, std::size_t first, std::size_t count) {
  const std::size_t row = size();
  append_optional(compile_context, row, other.compile_context, first, count, StringId());
  append_optional(user_metadata, row, other.user_metadata, first, count, StringId());
  append_optional(pool, row, other.pool, first, count, kNoPool);
  append_optional(forward_stack, row, other.forward_stack, first, count, StackId());
  append_optional(module, row, other.module, first, count, kNoModule);
  action.append(other.action.span().subspan(first, count));
  address.append(other.address.span().subspan(first, count));
  size_bytes.append(other.size_bytes.span().subspan(first, count));
  stream.append(other.stream.span().subspan(first, count));
  time_ns.append(other.time_ns.span().subspan(first, count));
  stack.append(other.stack.span().subspan(first, count));
}

void EventColumns::clear() {
  action.clear();
  address.clear();
  size_bytes.clear();
  stream.clear();
  time_ns.clear();
  stack.clear();
  compile_context.clear();
  user_metadata.clear();
  pool.clear();
  forward_stack.clear();
  module.clear();
}

void EventColumns::truncate(std::size_t size) {
  const auto cut = [&](auto& column) {
    if (column.size() > size) column.truncate(size);
  };
  cut(action);
  cut(address);
  cut(size_bytes);
  cut(stream);
  cut(time_ns);
  cut(stack);
  cut(compile_context);
  cut(user_metadata);
  cut(pool);
  cut(forward_stack);
  cut(module);
}

void EventColumns::shrink_to_fit() {
  action.shrink_to_fit();
  address.shrink_to_fit();
  size_bytes.shrink_to_fit();
  stream.shrink_to_fit();
  time_ns.shrink_to_fit();
  stack.shrink_to_fit();
  compile_context.shrink_to_fit();
  user_metadata.shrink_to_fit();
  pool.shrink_to_fit();
  forward_stack.shrink_to_fit();
  module.shrink_to_fit();
}

}  // namespace gpumemprof
