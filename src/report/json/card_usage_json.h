// The gap between the pool and the card as JSON: `devices[].gap`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "analysis/card_usage/card_usage.h"
#include "store/store.h"

namespace gpumemprof {

// null where the recording has no sample of the card.
nlohmann::ordered_json card_usage_json(const Store& store, const std::optional<CardUsage>& gap);

}  // namespace gpumemprof
