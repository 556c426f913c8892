// Any bytes, read as a trace of a profiler and as a profile of JAX, and replayed: nothing may
// crash, throw or break an invariant of the figures.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "ingest/foreign/chrome_trace.h"
#include "ingest/foreign/jax_profile.h"
#include "replay/replay.h"
#include "store/store.h"

namespace {

// Not assert(): checked in every build.
void require(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

void read(gpumemprof::EventSource& source) {
  gpumemprof::Store store;
  const gpumemprof::Status delivered = source.deliver(store);
  if (!delivered) {
    const gpumemprof::Error& error = delivered.error();
    require(error.code == gpumemprof::ErrorCode::bad_input, "a bad file is bad input");
    require(error.where.find("byte ") != std::string::npos, "a refusal names a byte");
    require(!error.hint.empty(), "a refusal says what to do");
    return;
  }
  require(!store.devices().empty(), "what is accepted has memory of a device");
  require(!store.facts().has_pool(), "no pool is claimed to be known");
  for (const auto& record : store.devices()) {
    const gpumemprof::DeviceReplay replay =
        gpumemprof::replay_device(*record, store.settings(), store.origin());
    require(replay.end.totals.allocated_bytes <= replay.peak.allocated_bytes ||
                replay.contradictions > 0,
            "the end is below the peak");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  read(*gpumemprof::ChromeTrace::from_bytes(bytes, "fuzz"));
  read(*gpumemprof::JaxProfile::from_bytes(bytes, "fuzz"));
  return 0;
}
