#include "cli/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/printable.h"

namespace gpumemprof::cli {
namespace {

// 0 where the user set none.
std::size_t asked_width() {
  const char* columns = std::getenv("COLUMNS");
  std::size_t width = 0;
  if (columns != nullptr) std::from_chars(columns, columns + std::strlen(columns), width);
  return width;
}

std::size_t terminal_width() {
  constexpr std::size_t kNarrowest = 60;
  constexpr std::size_t kWidest = 120;
  std::size_t width = 80;
  if (const std::size_t columns = asked_width(); columns > 0) {
    width = columns;
  } else if (winsize size{}; ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    width = size.ws_col;
  }
  return std::clamp(width, kNarrowest, kWidest);
}

int g_output_error = 0;  // why the first lost piece was lost

void write_out(const std::string& text) {
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!is_written && g_output_error == 0) g_output_error = errno;
}

}  // namespace

bool is_variable_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] != '\0';
}

Terminal look_at_terminal() {
  const char* term = std::getenv("TERM");
  const bool is_dumb = term != nullptr && std::string(term) == "dumb";
  Terminal terminal;
  terminal.width = terminal_width();
  terminal.has_color = isatty(STDOUT_FILENO) == 1 && !is_variable_set("NO_COLOR") && !is_dumb;
  terminal.shows_progress = isatty(STDERR_FILENO) == 1 && !is_variable_set("CI") && !is_dumb;
  return terminal;
}

void print_out(const std::string& text) {
  write_out(printable_page(text, look_at_terminal().has_color));
}

std::string lost_output() {
  // A reader that has seen enough closes its pipe; that is not an error.
  const int error_number = std::exchange(g_output_error, 0);
  if (error_number == 0 || error_number == EPIPE) return "";
  return std::strerror(error_number);
}

void print_json(const std::string& json) { write_out(printable_json(json) + "\n"); }

void print_error(const std::string& sentence) {
  std::fflush(stdout);
  fmt::print(stderr, "gpumemprof: {}\n", printable(sentence));
}

ProgressLine::ProgressLine(std::string what, bool is_shown)
    : what_(printable(what)), is_shown_(is_shown), start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (has_printed_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::update(std::uint64_t done, std::uint64_t total) {
  constexpr auto kQuick = std::chrono::milliseconds(300);
  if (!is_shown_ || total == 0 || std::chrono::steady_clock::now() - start_ < kQuick) return;
  fmt::print(stderr, "\r\033[K{}  {} %", what_, std::min<std::uint64_t>(100, 100 * done / total));
  std::fflush(stderr);
  has_printed_ = true;
}

void ProgressLine::begin() {
  if (!is_shown_) return;
  fmt::print(stderr, "\r\033[K{}", what_);
  std::fflush(stderr);
  has_printed_ = true;
}

}  // namespace gpumemprof::cli
