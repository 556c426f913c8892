#include "analysis/advice/remedies/list.h"

#include <algorithm>

namespace gpumemprof {

const std::vector<RemedySpec>& all_remedies() {
#define GPUMEMPROF_CALL_REMEDY(name) remedies::name(),
  static const std::vector<RemedySpec> kRemedies = {GPUMEMPROF_REMEDIES(GPUMEMPROF_CALL_REMEDY)};
#undef GPUMEMPROF_CALL_REMEDY
  return kRemedies;
}

const RemedySpec* find_remedy(std::string_view name) {
  const std::vector<RemedySpec>& all = all_remedies();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const RemedySpec& remedy) { return remedy.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace gpumemprof
