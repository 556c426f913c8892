#include "analysis/sources/measured.h"

namespace gpumemprof {

bool take_labels(const Store& /*store*/, const DeviceRecord& /*record*/,
                 AllocationLabels& /*labels*/) {
  return false;
}

std::vector<PhaseSpan> marked_phases(const Store& /*store*/, const DeviceRecord& /*record*/) {
  return {};
}

}  // namespace gpumemprof
