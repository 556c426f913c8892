// The labels block: sets of labels, modules, and the events at which they apply.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "event/event_sink.h"
#include "event/label.h"
#include "trace/bytes_io.h"
#include "trace/content/definitions.h"

namespace gpumemprof::trace {

// What is waiting to be written. Set rows are numbered across the whole file.
class LabelEncoder {
 public:
  std::uint32_t add_set(std::span<const Label> labels);
  void add(const Labelling& labelling) { labellings_.push_back(labelling); }
  void add(const PhaseMark& mark) { marks_.push_back(mark); }
  void add(const ModuleLabel& module) { modules_.push_back(module); }

  [[nodiscard]] std::uint32_t set_count() const { return set_count_; }
  [[nodiscard]] bool is_due() const {
    return sets_in_block_ + labellings_.size() + marks_.size() + modules_.size() != 0;
  }
  // A block of about a mebibyte is waiting.
  [[nodiscard]] bool is_full() const;
  // Appends the block's content and starts over.
  void encode(OutBytes& out);

 private:
  OutBytes sets_;
  std::size_t sets_in_block_ = 0;
  std::uint32_t set_count_ = 0;
  std::vector<Labelling> labellings_;
  std::vector<PhaseMark> marks_;
  std::vector<ModuleLabel> modules_;
};

class LabelDecoder {
 public:
  // Passes everything to the sink. False if the content is malformed; what came before is valid.
  bool decode(InBytes in, const DefinitionMap& definitions, EventSink& sink);
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }
  // What of it is here, and not in the sink.
  [[nodiscard]] std::uint64_t own_bytes() const { return sets_.size() * sizeof(std::uint32_t); }

  // A file is read from the middle: this many sets came before, and this finds the sink's number of
  // one of them; none if it does not exist.
  using FindSet = std::function<std::optional<std::uint32_t>(std::uint64_t set)>;
  void go_on_after(std::uint64_t sets, FindSet find_earlier) {
    first_set_ = sets;
    find_earlier_ = std::move(find_earlier);
    sets_.clear();
  }

 private:
  bool decode_set(InBytes& in, const DefinitionMap& definitions, EventSink& sink);
  static ModuleLabel decode_module(InBytes& in, const DefinitionMap& definitions);

  std::vector<std::uint32_t> sets_;  // the file's rows, from first_set_ on → the sink's
  std::uint64_t first_set_ = 0;
  FindSet find_earlier_;
  std::vector<Label> labels_;
  std::uint64_t memory_bytes_ = 0;
};

}  // namespace gpumemprof::trace
