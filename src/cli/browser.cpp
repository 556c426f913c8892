#include "cli/browser.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "cli/terminal.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace gpumemprof::cli {
namespace {

bool start(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", 1 /* O_WRONLY */, 0);
  // The signals that stop the server must not stay blocked in the browser.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return false;
  // xdg-open ends at once; a browser started directly keeps running and is left alone.
  std::thread([child] {
    int status = 0;
    waitpid(child, &status, 0);
  }).detach();
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool is_in_word = false;
  char quote = '\0';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    const bool is_blank = letter == ' ' || letter == '\t' || letter == '\n';
    if (quote == '\0' && is_blank) {
      is_in_word = false;
      continue;
    }
    if (!is_in_word) words.emplace_back();
    is_in_word = true;
    if (letter == quote) {
      quote = '\0';
    } else if (quote == '\0' && (letter == '\'' || letter == '"')) {
      quote = letter;
    } else if (letter == '\\' && quote != '\'' && at + 1 < text.size()) {
      words.back() += text[++at];
    } else {
      words.back() += letter;
    }
  }
  if (quote != '\0') return std::nullopt;
  return words;
}

std::vector<std::vector<std::string>> browser_commands(std::string_view browser,
                                                       const std::string& url) {
  std::vector<std::vector<std::string>> commands;
  while (!browser.empty()) {
    const std::string_view choice = browser.substr(0, browser.find(':'));
    browser.remove_prefix(std::min(choice.size() + 1, browser.size()));
    std::optional<std::vector<std::string>> words = split_words(choice);
    if (words && !words->empty() && words->back() == "&") words->pop_back();
    if (!words || words->empty()) continue;
    bool has_url = false;
    for (std::string& word : *words) {
      for (std::size_t at = word.find("%s"); at != std::string::npos;
           at = word.find("%s", at + url.size())) {
        word.replace(at, 2, url);
        has_url = true;
      }
    }
    if (!has_url) words->push_back(url);
    commands.push_back(*std::move(words));
  }
  if (commands.empty()) commands.push_back({"xdg-open", url});
  return commands;
}

bool start_browser(const std::string& url) {
  const char* browser = std::getenv("BROWSER");
  return std::ranges::any_of(browser_commands(browser == nullptr ? "" : browser, url), start);
}

bool has_screen() {
  return (is_variable_set("DISPLAY") || is_variable_set("WAYLAND_DISPLAY")) &&
         !is_variable_set("SSH_CONNECTION");
}

}  // namespace gpumemprof::cli
