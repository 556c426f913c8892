#include "analysis/leaks/leak_ground.h"

#include "analysis/leaks/decide.h"
#include "analysis/phases/run_kind.h"

namespace gpumemprof {

LeakGround find_leak_ground(const Store& store, const DeviceRecord& record,
                            const std::vector<PhaseSpan>& spans) {
  LeakGround ground;
  ground.device = record.device;
  ground.kind = find_run_kind(store, record, spans);
  const Repetitions repetitions =
      find_repetitions(store, record, spans, DecideOptions().fewest_floors);
  ground.repetition = repetitions.kind;
  ground.line = repetitions.line;
  ground.floors = find_floors(record, repetitions.spans);
  TableFiller filler(store, ground.floors);
  fill_table(record,
             find_collections(collection_times(store, record.device), record, 0,
                              record.events.size(), true),
             filler);
  ground.table = filler.take_table();
  ground.kept = filler.take_kept();
  return ground;
}

}  // namespace gpumemprof
