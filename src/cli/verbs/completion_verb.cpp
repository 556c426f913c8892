// `gpumemprof completion`: a script for a shell that completes commands, flags and their values.
//
// What there is to complete, the script reads from the help of the command as it is typed: there
// verbs written here and in Python look the same, and a script never grows old. A flag's choices
// are the words in small letters of "A|b|c", or a list such as "a, b or c" in its description.
#include <CLI/CLI.hpp>
#include <array>
#include <string_view>
#include <utility>

#include "cli/usage.h"
#include "cli/verb.h"

namespace gpumemprof::cli {
namespace {

// For awk, which reads the help. Its arguments are the words after the command, the last of them
// the one being typed; it prints what that may be, and nothing where that is a file. No backslash
// and no apostrophe: each shell quotes it its own way.
constexpr std::string_view kReadHelp = R"awk(
  function print_choices(words, prefix,    part, count, i) {
    count = split(words, part, "[|]")
    for (i = 1; i <= count; i++)
      if (part[i] ~ /^[a-z][a-z-]*(:N)?$/) { sub(/N$/, "", part[i]); print prefix part[i] }
  }
  function print_values(flag, prefix,    list) {
    print_choices(value[flag], prefix)
    list = text[flag]
    if (!match(list, /[a-z][a-z-]*(, [a-z][a-z-]*)+ or [a-z][a-z-]*/)) return
    list = substr(list, RSTART, RLENGTH)
    gsub(/, | or /, "|", list)
    print_choices(list, prefix)
  }
  BEGIN { for (n = 0; n < ARGC - 1; n++) word[n + 1] = ARGV[n + 1]; ARGC = 1 }
  /^Usage:/ { section = "Usage:" }
  /^[A-Z][a-z]*:$/ { section = $1; next }
  /^[^ ]/ && !/^Usage:/ { section = "" }
  section == "Usage:" && / SCRIPT / { runs_program = 1 }
  section == "Commands:" { verbs[++verb_count] = $1 }
  section == "Arguments:" && /^  [^ ]/ { arguments[++argument_count] = $1 }
  section == "Options:" && match($0, /^  -[^ ]*(, -[^ ]*)*( [^ ]+)?/) {
    count = split(substr($0, 1, RLENGTH), part, /,? +/)
    $0 = substr($0, RLENGTH + 1)
    placeholder = part[count] ~ /^-/ ? "" : part[count]
    for (i = 2; i <= count; i++)
      if (part[i] ~ /^-/) { flag = part[i]; flags[++flag_count] = flag; value[flag] = placeholder }
  }
  section == "Options:" { $1 = $1; text[flag] = text[flag] " " $0 }
  END {
    typed = word[n]
    for (i = 2; i < n; i++) {
      if (word[i] == "--" || (runs_program && word[i] !~ /^-/)) exit
      if (value[word[i]] == "") continue
      if (++i == n) { print_values(word[i - 1], ""); exit }
    }
    if (match(typed, /^--[^=]*=/)) print_values(substr(typed, 1, RLENGTH - 1), substr(typed, 1, RLENGTH))
    else if (typed ~ /^-/) for (i = 1; i <= flag_count; i++) print flags[i]
    else if (n == 1) for (i = 1; i <= verb_count; i++) print verbs[i]
    else for (i = 1; i <= argument_count; i++) print_choices(arguments[i], "")
  }
)awk";

// Where %s is, the program above stands.
constexpr std::string_view kBash = R"bash(# bash completion of gpumemprof
_gpumemprof() {
  local IFS=$'\n' typed=${2#=} word verb=() words=()
  # What follows "--flag=" comes as a word of its own.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do [[ $word == "=" ]] || words+=("$word"); done
  [[ ${COMP_WORDS[COMP_CWORD]} != "=" ]] || words+=("")
  ((${#words[@]} == 1)) || verb=("${words[0]}")
  COMPREPLY=($(compgen -W "$(command "$1" "${verb[@]}" --help 2>/dev/null |
    awk -- '%s' "${words[@]}")" -- "$typed"))
  [[ ${COMPREPLY[*]} != *: ]] || compopt -o nospace 2>/dev/null
}
complete -o default -F _gpumemprof gpumemprof
)bash";

constexpr std::string_view kZsh = R"zsh(#compdef gpumemprof
_gpumemprof() {
  local -a verb found
  ((CURRENT == 2)) || verb=("$words[2]")
  found=(${(f)"$(command "$words[1]" $verb --help 2>/dev/null |
    awk -- '%s' "${(@)words[2,CURRENT]}")"})
  if (($#found)); then compadd -- $found; else _files; fi
}
if [[ $funcstack[1] == _gpumemprof ]]; then _gpumemprof "$@"; else compdef _gpumemprof gpumemprof; fi
)zsh";

constexpr std::string_view kFish = R"fish(# fish completion of gpumemprof
function __gpumemprof_words
    set -l typed (commandline -ct)
    set -l words (commandline -opc) "$typed"
    set -l verb
    test (count $words) -gt 2; and set verb $words[2]
    set -l found (command $words[1] $verb --help 2>/dev/null | awk -- '%s' $words[2..-1])
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$typed"
    end
end
complete -c gpumemprof -f -a '(__gpumemprof_words)'
)fish";

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kScripts = {
    {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}}};

int run_completion(const std::string& shell) {
  for (const auto& [name, script] : kScripts) {
    if (name != shell) continue;
    std::string text(script);
    text.replace(text.find("%s"), 2, kReadHelp);
    print_out(text);
    return 0;
  }
  return fail(unknown_name("shell", shell, {"bash", "zsh", "fish"}, "name bash, zsh or fish"));
}

}  // namespace

VerbAction prepare_completion(CLI::App& verb) {
  const auto shell = std::make_shared<std::string>();
  verb.add_option("shell", *shell, "The shell that is to read it")
      ->type_name("bash|zsh|fish")
      ->required();
  verb.footer(
      "In ~/.bashrc:                   source <(gpumemprof completion bash)\n"
      "In ~/.zshrc, below compinit:    source <(gpumemprof completion zsh)\n"
      "In ~/.config/fish/config.fish:  gpumemprof completion fish | source");
  return [shell](const Environment&) { return run_completion(*shell); };
}

}  // namespace gpumemprof::cli
