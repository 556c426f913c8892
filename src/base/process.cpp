#include "base/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace gpumemprof {
namespace {

namespace fs = std::filesystem;

// In another container that shares the name of the machine, a process has another number: a
// recording that has just grown has a writer, seen or not.
constexpr std::chrono::seconds kQuiet(60);

bool is_open_for_writing(const fs::path& process, const fs::path& descriptor) {
  std::ifstream told(process / "fdinfo" / descriptor);
  for (std::string name, value; told >> name >> value;) {
    if (name == "flags:") return (std::stoul(value, nullptr, 8) & O_ACCMODE) != O_RDONLY;
  }
  return false;
}

// A recording in chapters is written where a file of its folder is.
bool is_of(const fs::path& file, const fs::path& recording) {
  return file == recording || file.parent_path() == recording;
}

fs::file_time_type last_written(const fs::path& recording) {
  std::error_code ignored;
  fs::file_time_type last = fs::last_write_time(recording, ignored);
  for (const auto& entry : fs::directory_iterator(recording, ignored))
    last = std::max(last, entry.last_write_time(ignored));
  return last;
}

}  // namespace

std::string own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return words;
}

std::string own_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string own_process_id() { return std::to_string(::getpid()); }

std::optional<bool> is_being_written(const std::string& path, const std::string& host,
                                     std::optional<std::uint64_t> pid) {
  if (!pid || host.empty() || host != own_host()) return std::nullopt;
  std::error_code problem;
  const fs::path recording = fs::canonical(path, problem);
  if (problem) return std::nullopt;
  const fs::path process = fs::path("/proc") / std::to_string(*pid);
  if (fs::exists(process, problem)) {
    fs::directory_iterator descriptors(process / "fd", problem);
    if (problem) return std::nullopt;
    for (const auto& descriptor : descriptors) {
      const fs::path file = fs::read_symlink(descriptor.path(), problem);
      if (!problem && is_of(file, recording) &&
          is_open_for_writing(process, descriptor.path().filename()))
        return true;
    }
  }
  if (fs::file_time_type::clock::now() - last_written(recording) < kQuiet) return std::nullopt;
  return false;
}

}  // namespace gpumemprof
