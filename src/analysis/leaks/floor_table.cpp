#include "analysis/leaks/floor_table.h"

#include "analysis/growth/plausible_bytes.h"

namespace gpumemprof {

void SiteFloors::add(FloorRange seen, std::uint64_t bytes, bool is_collected) {
  const std::int64_t size = plausible_bytes(bytes);
  FloorChange& birth = changes[static_cast<std::uint32_t>(seen.first)];
  birth.born_bytes += size;
  ++birth.born_blocks;
  if (seen.end > seen.first + 1) birth.kept_bytes += size;
  FloorChange& death = changes[static_cast<std::uint32_t>(seen.end)];
  death.freed_bytes += size;
  if (is_collected) death.collected_bytes += size;
  ++death.freed_blocks;
}

}  // namespace gpumemprof
