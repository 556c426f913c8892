// The shapes of the answers in this folder, for answer_shapes().
#pragma once

#include <vector>

#include "report/view/answer_shapes.h"

namespace gpumemprof::view {

void add_verdicts(std::vector<Shape>& shapes);
void add_steps(std::vector<Shape>& shapes);
void add_advice(std::vector<Shape>& shapes);
// After it: what remedies were tried on, and what came of it.
void add_tried(std::vector<Shape>& shapes);

}  // namespace gpumemprof::view
