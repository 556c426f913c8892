// FileIds: the ids that one file uses for stacks, strings, tags, streams, pools and modules. Each
// is written to the file the first time an event needs it.
//
// The stack mirror is shared by all recordings and has ids of its own; a file contains only what
// its events refer to. For the drain thread alone.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/flat_map.h"
#include "capture/capture.h"
#include "capture/stacks/stack_mirror.h"
#include "trace/writer.h"

namespace gpumemprof::capture {

class FileIds {
 public:
  // The writer must outlive this.
  explicit FileIds(TraceWriter& writer) : writer_(writer) {}

  StackId stack(StackId id, const StackMirror& mirror);
  // `tags` are the names of all tags, by number.
  StringId tag(std::uint16_t tag, const std::vector<std::string>& tags);
  std::uint32_t stream(std::uint64_t handle);
  std::uint32_t pool(PoolId pool);
  // Modules have the same numbers in every file; this makes sure that the file says what the number
  // stands for.
  std::uint32_t module(std::uint32_t number, const StackMirror& mirror);
  // `numbers` are the mirror's own, kNoModule for a module that was not called yet.
  void describe_modules(const std::vector<ModuleDescription>& modules,
                        const std::vector<std::uint32_t>& numbers);

 private:
  StringId string(StringId id, const StackMirror& mirror);
  // Whether the file defined this module already; from now on it has.
  bool set_defined(std::uint32_t number);

  TraceWriter& writer_;
  std::vector<StackId> stacks_;    // by the mirror's id
  std::vector<StringId> strings_;  // by the mirror's id
  std::vector<StringId> tags_;
  FlatMap<std::uint32_t> streams_;
  FlatMap<std::uint32_t> pools_;
  std::vector<bool> defined_modules_;  // by number
  std::set<ModuleLabel> described_;
};

}  // namespace gpumemprof::capture
