// Whether a recording is of training or of inference: a run without backward is inference, unless
// it ended so early that a backward may still have followed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/code/code_kind.h"
#include "analysis/sources/sources.h"

namespace gpumemprof {

// The calls of the program's models: stretches of forward code called by one line of the program.
// Consecutive calls from the same line with no allocation between them count as one.
struct ForwardCall {
  std::uint32_t first_event = 0;
  std::uint32_t last_event = 0;
  StackId site;  // the calling line, with its callers
};
// By stack: the line that calls the model; none for stacks outside forward.
std::vector<StackId> callers_of_forward(const StackTrie& stacks,
                                        const std::vector<CodeKind>& kinds);

std::vector<ForwardCall> find_forward_calls(const Store& store, const DeviceRecord& record,
                                            const std::vector<CodeKind>& kinds);

// The call that an event is in or after; -1 before the first.
std::ptrdiff_t call_at(const std::vector<ForwardCall>& calls, std::uint32_t event);

RunKind find_run_kind(const Store& store, const DeviceRecord& record,
                      const std::vector<PhaseSpan>& spans);

}  // namespace gpumemprof
