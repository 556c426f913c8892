// The viewer's types, written from the table of questions and the shapes of their answers.
#pragma once

#include <string>

namespace gpumemprof::view {

// viewer/src/data/answers.ts: the values that parameters take, and the shapes.
std::string answers_typescript();
// viewer/src/data/questions.ts: the questions, and limits that a page must keep as the server does.
std::string questions_typescript();

}  // namespace gpumemprof::view
