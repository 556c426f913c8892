// The sentences of the advice, built from the run's own figures.
#pragma once

#include <string>
#include <vector>

#include "analysis/advice/advisor.h"

namespace gpumemprof {

// "2.55 GiB of activations and 949 MiB of optimizer state": the two largest.
std::string describe_peak(const PeakPicture& peak);
// Why the remedy helps in this run, or why it does not.
std::string why(const Advisor& advisor, const Change& change, const Remedy& remedy,
                const Prediction& prediction);
// What is unknown about a run that ran out of memory and could not be completed, and what to do.
std::string why_partial(const Advisor& advisor);
// Which recording would say more.
std::vector<std::string> missing_facts(const Advisor& advisor);

}  // namespace gpumemprof
