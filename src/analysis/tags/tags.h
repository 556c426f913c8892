// How the program named its memory: the tags it allocated under (gpumemprof.tag) and the names of
// its tensors, at one moment.
#pragma once

#include <cstdint>
#include <vector>

#include "event/memory_source.h"
#include "store/store.h"

namespace gpumemprof {

struct TagFigures {
  StringId tag;
  std::uint64_t bytes = 0;  // allocated at the moment
  std::uint64_t blocks = 0;
  std::uint64_t bytes_max = 0;    // the most it ever held
  std::uint64_t allocations = 0;  // made under it in the whole recording
};

struct NamedTensor {
  StringId name;
  MemorySource source = MemorySource::unknown;
  bool is_measured = false;
  std::uint64_t bytes = 0;
};

struct TagReport {
  std::vector<TagFigures> tags;      // most bytes ever first
  std::vector<NamedTensor> largest;  // named tensors at the moment, largest first
  std::uint64_t named_bytes = 0;     // of all named tensors at the moment
  std::uint64_t named_blocks = 0;
};

// The tag an allocation was made under; none if there was none.
StringId tag_of(const DeviceRecord& record, std::size_t allocation);

// Whether anything on this device was tagged.
bool has_tags(const DeviceRecord& record);

TagReport find_tags(const DeviceRecord& record, Moment moment);

}  // namespace gpumemprof
