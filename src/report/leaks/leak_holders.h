// Who held leaked memory when the program ended, if the program itself looked and wrote it down.
//
// The recording has a fact "leak holders": a JSON list with one entry for each line that allocates:
// {"site": {"file", "line", "is_backward"}, "chain": [...], "text"}, the chain of references from a
// name in the program inwards.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "store/store.h"

namespace gpumemprof {

struct LeakHolder {
  nlohmann::ordered_json chain;  // null: the recording does not say
  std::string text;              // the same for people; empty: the recording does not say
};
LeakHolder leak_holder(const Store& store, FrameId frame, bool is_backward);

// What to change: that of the line, unless the holder shows more.
std::string advice_with_holder(const std::string& advice, const LeakHolder& holder);

}  // namespace gpumemprof
