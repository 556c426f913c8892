// The advice as JSON.
#pragma once

#include <string>

#include "analysis/advice/advice.h"

namespace gpumemprof {

std::string advice_json(const Advice& advice, const Store& store);
// One of its remedies, or several together; savings are relative to `whole_bytes`.
std::string remedy_text_json(const Remedy& remedy, std::uint64_t whole_bytes);

}  // namespace gpumemprof
