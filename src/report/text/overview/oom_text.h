// The first thing to read after a failed job: why memory ran out, in one sentence with its figures,
// and what to do about it.
#pragma once

#include <optional>
#include <string>

#include "analysis/oom/oom.h"
#include "store/store.h"

namespace gpumemprof::text {

// "a limit on this process refused 192 MiB while the card had 125 GiB free"
std::string oom_verdict(const OomReport& oom, const Store& store);
// Further details: how much is short, what else held memory, what is uncertain; in sentences.
std::string oom_details(const OomReport& oom);
// The state of the pool and the card.
std::string oom_facts(const OomReport& oom);

struct OomRemedy {
  std::string sentence;
  std::string command;  // empty where there is none
};
OomRemedy oom_remedy(const OomReport& oom, const Store& store, const std::string& path);

// The command that makes the run fit into what was available; none where nothing could.
std::optional<std::string> fit_command(const OomReport& oom, const std::string& path);

}  // namespace gpumemprof::text
