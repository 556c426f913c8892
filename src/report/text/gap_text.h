// From the pool to the card, as text: one column of bytes that adds up at each line.
#pragma once

#include <string>

#include "analysis/gap/gap.h"

namespace gpumemprof::text {

std::string gap_table(const DeviceGap& gap);

}  // namespace gpumemprof::text
