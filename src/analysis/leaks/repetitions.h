// Repetitions: the parts of a run that do the same work again, so that what is live at the floor of
// one can be compared with that of the next.
//
// Training steps, as marked or recognized; without an optimizer, the backwards; in inference, the
// calls of the model by one line; in a program without modules, a line that allocates again and
// again.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/sources/sources.h"
#include "store/store.h"

namespace gpumemprof {

enum class RepetitionKind : std::uint8_t { none, steps, backwards, calls, lines };
constexpr std::string_view repetition_name(RepetitionKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "step", "backward", "call",
                                                      "repetition"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct Repetitions {
  RepetitionKind kind = RepetitionKind::none;
  StackId line;                  // calls, lines: which
  std::vector<PhaseSpan> spans;  // numbered by repetition instead of by step
  std::uint32_t count = 0;
};

// The kind of repetition of which there are at least `fewest`; otherwise the steps there are.
Repetitions find_repetitions(const Store& store, const DeviceRecord& record,
                             const std::vector<PhaseSpan>& spans, std::uint32_t fewest);

}  // namespace gpumemprof
