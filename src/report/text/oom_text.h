// The first thing a person reads after a failed job: why memory ran out, in one sentence with its
// figures, and what to do about it.
#pragma once

#include <optional>
#include <string>

#include "analysis/oom/oom.h"
#include "store/store.h"

namespace gpumemprof::text {

// "a limit on this process refused 192 MiB while the card had 125 GiB free"
std::string oom_verdict(const OomReport& oom, const Store& store);
// What else belongs to it: how much is short, what else held memory, what is in doubt; sentences.
std::string oom_details(const OomReport& oom);
// What the pool and the card looked like.
std::string oom_facts(const OomReport& oom);

struct OomRemedy {
  std::string sentence;
  std::string command;  // empty where there is none
};
OomRemedy oom_remedy(const OomReport& oom, const Store& store, const std::string& path);

// The command that makes the run fit into what there was; none where nothing could.
std::optional<std::string> fit_command(const OomReport& oom, const std::string& path);

}  // namespace gpumemprof::text
