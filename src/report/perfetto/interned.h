// InternedData: texts and call stacks of a Perfetto trace, numbered from 1 when they are first
// used.
//
// What is new is kept as bytes of a message until the next packet, which takes it along. Memory
// grows with the number of different texts and stacks, not with that of events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/perfetto/fields.h"
#include "store/store.h"

namespace gpumemprof {

class InternedData {
 public:
  // The store must outlive it.
  explicit InternedData(const Store& store) : store_(store) {}

  // Numbers a text of a kind.
  std::uint64_t text(perfetto_fields::Tag kind, std::string_view value);

  // A stack as a text of notes: its frames, innermost first, in one line. Released readers know
  // call stacks of heap profiles, but not those of events.
  std::uint64_t stack_text(StackId stack, bool is_backward);
  // A call stack below one more frame, so that it is no other heap's stack.
  std::uint64_t callstack_below(std::string_view root, StackId stack, bool is_backward);

  // What was new since the last call.
  [[nodiscard]] const std::string& pending() const { return pending_; }
  void clear_pending() { pending_.clear(); }

 private:
  // Outermost first.
  std::vector<std::uint64_t> frames_of(StackId stack, bool is_backward);
  [[nodiscard]] std::string stack_line(StackId stack, bool is_backward) const;
  void write_mapping();
  [[nodiscard]] std::string shown_frame(FrameId id) const;
  std::uint64_t frame_number(FrameId id);
  std::uint64_t named_frame(std::string_view name);
  void write_frame(const std::string& name, const std::string& file, std::uint32_t line);

  const Store& store_;
  std::string pending_;
  std::string key_;
  std::unordered_map<perfetto_fields::Tag, std::unordered_map<std::string, std::uint64_t>> texts_;
  std::unordered_map<std::uint64_t, std::uint64_t> stack_texts_;
  std::unordered_map<std::uint32_t, std::uint64_t> frames_;
  std::unordered_map<std::string, std::uint64_t> named_frames_;
  std::uint64_t next_stack_ = 1;
  std::uint64_t next_frame_ = 1;
  bool has_mapping_ = false;
};

}  // namespace gpumemprof
