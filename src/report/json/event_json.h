// The number of an event, null where there is none.
#pragma once

#include <nlohmann/json.hpp>

#include "event/event.h"

namespace gpumemprof {

inline nlohmann::ordered_json event_or_null(std::uint32_t event) {
  return event == kNoEvent ? nlohmann::ordered_json() : nlohmann::ordered_json(event);
}

}  // namespace gpumemprof
