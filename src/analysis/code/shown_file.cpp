#include "analysis/code/shown_file.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <vector>

#include "analysis/code/user_frame.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kMostFoldersUp = 2;
// "pkg.sub" of a program that was started as python -m pkg.sub.train.
constexpr std::string_view kMainPackageFact = "main_package";

std::string_view folder_of(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : file.substr(0, slash + 1);
}

// A command installed by pip (bin/torchrun) only starts a package: it is not a program's main
// script.
bool is_program_file(std::string_view file) {
  return file.starts_with('/') && !is_library_file(file) && !folder_of(file).ends_with("/bin/");
}

// "torch/nn/modules/linear.py" and "threading.py": the part after the folder Python imports from.
std::optional<std::string_view> import_name(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t at = file.rfind(folder);
    if (at != std::string_view::npos) return file.substr(at + folder.size());
  }
  constexpr std::string_view kStandard = "/lib/python3.";
  const std::size_t at = file.find(kStandard);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t end = at + kStandard.size();
  while (end < file.size() && std::isdigit(static_cast<unsigned char>(file[end])) != 0) ++end;
  if (end >= file.size() || file[end] != '/') return std::nullopt;
  return file.substr(end + 1);
}

// "../lib/net.py" for a file in a folder next to the program's or next to its parent.
std::optional<std::string> from_folders_above(std::string_view file, std::string_view folder) {
  std::string up;
  for (std::size_t level = 0; level < kMostFoldersUp; ++level) {
    folder.remove_suffix(1);
    folder = folder_of(folder);
    if (folder.size() < 2) break;  // everything is below the root
    up += "../";
    if (!file.starts_with(folder)) continue;
    std::string shown = up + std::string(file.substr(folder.size()));
    if (shown.size() < file.size()) return shown;
    break;
  }
  return std::nullopt;
}

// The stacks below each outermost frame of the program's own code, by that frame's folder.
class FolderVotes {
 public:
  explicit FolderVotes(const Store& store) : store_(store) {}

  std::string winner() {
    const StackTrie& stacks = store_.stacks();
    constexpr std::uint32_t kNobody = 0xffffffffU;
    std::vector<std::uint32_t> root_of(stacks.size(), kNobody);
    std::vector<std::uint32_t> roots;
    std::vector<std::uint64_t> votes;
    // A caller has a lower number than its callee.
    for (std::uint32_t node = 0; node < stacks.size(); ++node) {
      const StackId caller = stacks.caller(StackId{node});
      if (!caller.is_none()) root_of[node] = root_of[caller.index];
      if (root_of[node] == kNobody && is_own(stacks.frame(StackId{node}))) {
        root_of[node] = static_cast<std::uint32_t>(roots.size());
        roots.push_back(node);
        votes.push_back(0);
      }
      if (root_of[node] != kNobody) ++votes[root_of[node]];
    }
    for (std::size_t root = 0; root < roots.size(); ++root)
      count(stacks.frame(StackId{roots[root]}), votes[root]);
    return std::string(best(by_module_).value_or(best(by_function_).value_or("")));
  }

 private:
  using Votes = std::map<std::string_view, std::uint64_t>;

  bool is_own(FrameId id) {
    if (is_own_.size() <= id.index) is_own_.resize(store_.frames().size(), kNotAsked);
    std::uint8_t& known = is_own_[id.index];
    if (known == kNotAsked)
      known = is_program_file(store_.text(store_.frame(id).file)) ? kYes : kNo;
    return known == kYes;
  }

  // Threads start in functions; only a script's own lines show which one is the main script.
  void count(FrameId id, std::uint64_t stacks) {
    const Frame& frame = store_.frame(id);
    Votes& votes = store_.text(frame.name) == "<module>" ? by_module_ : by_function_;
    votes[folder_of(store_.text(frame.file))] += stacks;
  }

  static std::optional<std::string_view> best(const Votes& votes) {
    const auto most = std::ranges::max_element(
        votes, [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == votes.end() ? std::nullopt : std::optional(most->first);
  }

  static constexpr std::uint8_t kNotAsked = 0;
  static constexpr std::uint8_t kYes = 1;
  static constexpr std::uint8_t kNo = 2;
  const Store& store_;
  std::vector<std::uint8_t> is_own_;
  Votes by_module_;
  Votes by_function_;
};

}  // namespace

std::string program_folder(const Store& store) {
  std::string folder = FolderVotes(store).winner();
  for (const auto& [key, value] : store.origin().facts) {
    if (key != kMainPackageFact || value.empty()) continue;
    std::string package = "/" + value + "/";
    std::ranges::replace(package, '.', '/');
    if (folder.ends_with(package)) folder.resize(folder.size() - package.size() + 1);
    break;
  }
  return folder;
}

std::string shown_file(std::string_view file, std::string_view program_folder) {
  if (const auto name = import_name(file)) return std::string(*name);
  if (program_folder.size() < 2) return std::string(file);
  if (file.starts_with(program_folder)) return std::string(file.substr(program_folder.size()));
  return from_folders_above(file, program_folder).value_or(std::string(file));
}

}  // namespace gpumemprof
