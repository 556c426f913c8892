#include "analysis/advice/remedies/transfer.h"

namespace gpumemprof {

std::optional<Slowdown> transfer_slowdown(const AdvisedRun& run, std::uint64_t bytes_per_pass) {
  // What a PCIe 4.0 x16 link transfers to and from pinned memory: which link the machine has is not
  // recorded.
  constexpr double kLinkBytesPerSecond = 25e9;
  const std::optional<double> step_seconds = run.step_seconds();
  if (!step_seconds || *step_seconds <= 0 || run.rounding() == nullptr) return std::nullopt;
  const std::size_t passes = run.facts().passes().size();
  const auto timed = static_cast<double>(passes > 1 ? passes - 1 : passes);
  const double seconds = static_cast<double>(bytes_per_pass) * timed / kLinkBytesPerSecond;
  return Slowdown{100 * seconds / *step_seconds, false};
}

}  // namespace gpumemprof
