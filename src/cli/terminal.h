// What the terminal can show, and a line of progress on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpumemprof::cli {

struct Terminal {
  std::size_t width = 80;
  bool has_color = false;       // standard output is a terminal and NO_COLOR is not set
  bool shows_progress = false;  // standard error is a terminal
};

Terminal look_at_terminal();
// An environment variable that is not empty.
[[nodiscard]] bool is_variable_set(const char* name);

// Names in the text may come from untrusted files: characters that would act on the terminal are
// shown as a dot, and escaped in JSON. Output that cannot be written is lost: lost_output() reports
// it at the end.
void print_out(const std::string& text);
void print_json(const std::string& json);
// Why standard output did not take everything printed since the last call; empty: it did, or its
// reader went away.
[[nodiscard]] std::string lost_output();
void print_error(const std::string& sentence);

// "reading run.pickle  62 %", rewritten in place on standard error; prints nothing to a pipe or for
// quick work.
class ProgressLine {
 public:
  ProgressLine(std::string what, bool is_shown);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void update(std::uint64_t done, std::uint64_t total);
  // For work whose progress is not known.
  void begin();

 private:
  std::string what_;
  bool is_shown_;
  bool has_printed_ = false;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace gpumemprof::cli
