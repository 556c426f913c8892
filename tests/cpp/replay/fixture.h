// The recorded snapshots of tests/data/snapshots, each with the values of PyTorch's own counters.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof::test {

struct Fixture {
  std::unique_ptr<Store> store;
  nlohmann::json truth;

  [[nodiscard]] DeviceRecord& device() const { return *store->devices().at(0); }
};

// Every snapshot that has its ground truth next to it.
std::vector<std::string> fixture_names();
Fixture load_fixture(const std::string& name);

// The same recording with only the events that `keeps` accepts, by row number.
template <typename Keep>
std::unique_ptr<DeviceRecord> with_events(const DeviceRecord& record, Keep&& keeps) {
  auto copy = std::make_unique<DeviceRecord>();
  copy->device = record.device;
  copy->final_state = record.final_state;
  for (std::size_t event = 0; event < record.events.size(); ++event) {
    if (keeps(event)) copy->events.append(record.events, event, 1);
  }
  return copy;
}

}  // namespace gpumemprof::test
