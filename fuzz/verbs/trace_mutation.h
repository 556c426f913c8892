// Changes to a .gmp file beneath its checksums: to the file's content, written again by the real
// writer, and to the bytes of its blocks, packed again with valid headers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/store.h"
#include "trace/format.h"
#include "verbs/choices.h"

namespace gpumemprof::fuzz {

using FileBytes = std::vector<std::uint8_t>;

void mutate_store(Store& store, Choices& choices);

FileBytes mutate_blocks(std::span<const std::uint8_t> file, Choices& choices);

// A file's blocks without their headers, and a file of such blocks with valid ones.
struct PlainBlock {
  trace::BlockKind kind;
  FileBytes content;
};
std::vector<PlainBlock> blocks_of(std::span<const std::uint8_t> file);
// `file`: whose version it has. A level of 0 stores blocks as they are.
FileBytes file_of(std::span<const std::uint8_t> file, const std::vector<PlainBlock>& blocks,
                  int compression_level);

}  // namespace gpumemprof::fuzz
