// The programs of .eh_frame: how a function's frame is laid out, from instruction to instruction.
//
// Reads what the compiler wrote about code that is loaded, and never more than the entry says that
// it is long.
#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/foreign_memory.h"
#include "capture/native/unwind_rule.h"

namespace gpumemprof::capture {

// The rule at an address, by the frame description entry that covers it. `unknown` if it does not
// cover it or says something that we do not follow.
UnwindRule rule_of_description(const std::uint8_t* entry, std::uintptr_t address);

// The size of a pointer in this encoding; 0 if that is not fixed.
std::size_t encoded_bytes(std::uint8_t encoding);

}  // namespace gpumemprof::capture
