// Collapsed stacks, as flame graph tools read them: what was live at the peak of the device with
// the largest one.
//
// A line is a stack, outermost frame first, and its bytes: "main (train.py:3);step (train.py:7)
// 8388608". Blocks without a stack are summed up as "[no stack]"; those allocated in backward end
// in "[backward]" below the stack of their forward op.
#pragma once

#include <string>

#include "analysis/overview/overview.h"
#include "base/file_sink.h"
#include "base/result.h"
#include "store/store.h"

namespace gpumemprof {

std::string folded_stacks(const Overview& overview, const Store& store);
Status write_folded_stacks(const Overview& overview, const Store& store, const std::string& path,
                           FileSink::Existing existing);

}  // namespace gpumemprof
