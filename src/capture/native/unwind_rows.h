// Reads the unwind rule of an address from the tables that compilers put beside the code
// (.eh_frame, found through .eh_frame_hdr), which exceptions use as well.
//
// Neither allocates nor waits: it reads memory of the module that the address belongs to, which is
// loaded as long as the address is on a stack. Before glibc 2.35 the loader's list of modules is
// read under its lock, as every exception does.
#pragma once

#include <cstdint>

#include "capture/native/unwind_rule.h"

namespace gpumemprof::capture {

// Once before the first rule is read, outside of the allocator's callbacks: asking the loader for a
// function may wait for its lock.
void prepare_unwind_rows();

// The rule at a return address: the one of the call before it. `unknown` if no module is there, or
// if it does not say.
UnwindRule read_unwind_rule(std::uintptr_t return_address);

// The same from one module's .eh_frame_hdr; for tests.
UnwindRule read_unwind_rule_in(const std::uint8_t* header, std::uintptr_t return_address);

}  // namespace gpumemprof::capture
