// Changes to a .gmp file beneath its checksums: to the file's content, written again by the real
// writer, and to the bytes of its blocks, packed again with valid headers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/store.h"
#include "verbs/choices.h"

namespace gpumemprof::fuzz {

void mutate_store(Store& store, Choices& choices);

std::vector<std::uint8_t> mutate_blocks(std::span<const std::uint8_t> file, Choices& choices);

}  // namespace gpumemprof::fuzz
