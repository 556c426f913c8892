#include "analysis/whatif/recorded_limits.h"

namespace gpumemprof {
namespace {

// Rules differ between these; a recording without a version is checked against each, newest rules
// last because they are the rarest in recordings without one.
constexpr TorchVersion kTriedVersions[] = {{2, 11}, {2, 13}, {2, 9}, {2, 4}};

}  // namespace

std::vector<TorchVersion> recorded_versions(const Store& store) {
  const Result<TorchVersion> stated = parse_torch_version(store.facts().process().torch);
  if (stated) return {stated.value()};
  return {std::begin(kTriedVersions), std::end(kTriedVersions)};
}

std::vector<std::optional<sim::MemoryLimit>> recorded_limits(const Store& store,
                                                             DeviceIndex device) {
  // Our own recordings say how much of the card the process was allowed.
  const DeviceFacts& facts = store.facts().device(device);
  const Result<TorchVersion> version = parse_torch_version(store.facts().process().torch);
  if (!facts.total_bytes || !facts.memory_fraction || !version) return {std::nullopt};
  // Stated when recording began; a program may have changed it since.
  return {sim::limit_of_fraction(*facts.memory_fraction, *facts.total_bytes,
                                 sim::rules_for(version.value())),
          std::nullopt};
}

std::uint64_t mismatches_of(const sim::Verification& verified) {
  return verified.address_mismatches + verified.segment_mismatches + verified.counter_mismatches;
}

}  // namespace gpumemprof
