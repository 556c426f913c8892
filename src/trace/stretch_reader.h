// StretchReader: some blocks of a .gmp file, from the middle of it, into a sink.
//
// Whoever read the whole file once knows the rows that the blocks refer to, and where its sets of
// labels are. Only what has a place in the history is delivered: events, what is said about them,
// samples, annotations.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "event/event_sink.h"
#include "trace/block.h"
#include "trace/content/definitions.h"
#include "trace/content/labels.h"

namespace gpumemprof {

// A block that adds sets of labels.
struct LabelBlock {
  trace::BlockPlace place;
  std::uint32_t first_set = 0;  // the file's number of the first one it adds
};

class StretchReader {
 public:
  // `known`: the rows of the whole file, as the sink's ids. `label_blocks`: in order. All but the
  // path must outlive the reader.
  static Result<std::unique_ptr<StretchReader>> open(const std::string& path, EventSink& sink,
                                                     trace::DefinedRows known,
                                                     const std::vector<LabelBlock>& label_blocks);

  // The blocks from one place up to another, which may be the end of the file. Fails if they are
  // damaged.
  Status deliver(const trace::BlockPlace& from, std::uint64_t end_byte);

 private:
  StretchReader(std::unique_ptr<FileSource> file, std::string path, EventSink& sink,
                trace::DefinedRows known, const std::vector<LabelBlock>& label_blocks);

  bool take(const trace::Block& block);
  // The sink's number of a set that an earlier block added.
  std::optional<std::uint32_t> earlier_set(std::uint64_t set);

  std::unique_ptr<FileSource> file_;
  std::string path_;
  EventSink& sink_;
  trace::DefinitionMap definitions_;
  const std::vector<LabelBlock>& label_blocks_;
  std::map<std::uint64_t, std::uint32_t> sets_;  // the file's number → the sink's
  trace::LabelDecoder labels_;
};

}  // namespace gpumemprof
