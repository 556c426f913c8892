// What is printed when a program runs out of memory: a note of a few lines for the exception, and a
// page for a failure that ends the program.
#pragma once

#include <string>

#include "analysis/failure/failure.h"

namespace gpumemprof::text {

struct FailureText {
  std::string note;
  std::string page;  // begins with the note's sentences
};

// `error`: what the failed library said; used if PyTorch's allocator did not fail.
FailureText failure_text(const Failure& failure, const Store& store, const std::string& path,
                         const std::string& error, std::size_t width);

// One line: "Cheapest remedy (predicted): checkpointing, peak 61.2 GiB". Empty if there is none.
std::string cheapest_remedy(const Advice& advice, std::size_t width);

}  // namespace gpumemprof::text
