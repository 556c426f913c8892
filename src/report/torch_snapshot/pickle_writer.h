// PickleWriter: plain Python values → a protocol-4 pickle, streamed to a file.
//
// Only uses opcodes that PyTorch's memory_viz knows: its web page has its own unpickler. Errors are
// kept until finish().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file_sink.h"

namespace gpumemprof {

class PickleWriter {
 public:
  // An index into the pickle's memo; the value there can be referenced again.
  using Memo = std::uint32_t;

  explicit PickleWriter(std::unique_ptr<FileSink> file);

  void integer(std::int64_t value);
  void integer(std::uint64_t value);
  void boolean(bool value) { byte(value ? 0x88 : 0x89); }
  void real(double value);
  void text(std::string_view value);
  // For the few texts that repeat often: dict keys, actions, states.
  void common_text(std::string_view value);

  // Items go between begin_… and end_…; a dict takes keys and values alternately.
  void begin_dict();
  void end_dict() { byte('u'); }
  void begin_list();
  void end_list();
  // To be called after each item of a list that may be long: keeps the reader's stack small.
  void end_item();
  // After two values.
  void end_pair() { byte(0x86); }
  void empty_list() { byte(']'); }

  // Stores the value written last in the memo.
  Memo memoize();
  void get(Memo memo);

  Status finish();

 private:
  void byte(std::uint8_t value) { buffer_.push_back(value); }
  void number(std::uint64_t value, std::size_t bytes);
  void spill();

  std::unique_ptr<FileSink> file_;
  std::vector<std::uint8_t> buffer_;
  std::vector<std::uint32_t> items_in_batch_;  // of the open lists
  std::unordered_map<std::string_view, Memo> common_;
  Memo next_memo_ = 0;
  std::optional<Error> failure_;
};

}  // namespace gpumemprof
