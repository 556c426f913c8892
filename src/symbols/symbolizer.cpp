#include "symbols/symbolizer.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "symbols/mangled_size.h"

namespace gpumemprof {
namespace {

// The longest demangled names of torch's libraries have a few thousand letters; what is known
// before they are demangled is that they have at most some hundred times as many.
constexpr std::uint64_t kMostDemangledBytes = std::uint64_t{1} << 20;
// What is looked up again and again is a few thousand functions.
constexpr std::uint64_t kMostKeptNamesBytes = std::uint64_t{4} << 20;

std::string_view short_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Where distributions put separate debug information.
std::string debug_file(const std::string& build_id) {
  if (build_id.size() < 4) return {};
  return "/usr/lib/debug/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) + ".debug";
}

}  // namespace

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z") || most_demangled_bytes(name) > kMostDemangledBytes) return name;
  int failure = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &failure);
  if (text == nullptr) return name;
  std::string readable(text);
  std::free(text);
  return readable;
}

Symbolizer::Module Symbolizer::open(const NativeModule& module) {
  Module opened;
  std::string path = module.path;
  // Where a relative path leads depends on the folder that the recording is read in.
  if (!path.starts_with('/')) {
    opened.found = Found::no_place;
    return opened;
  }
  Result<std::unique_ptr<ElfFile>> elf = ElfFile::open(path);
  const bool is_other =
      elf && !module.build_id.empty() && elf.value()->build_id() != module.build_id;
  if (is_other) opened.found = Found::other_build;
  if (!elf || is_other) {  // its separate debug information alone says as much
    path = debug_file(module.build_id);
    if (path.empty()) return opened;
    elf = ElfFile::open(path);
    if (!elf || elf.value()->build_id() != module.build_id) return opened;
  }
  opened.elf = std::move(elf).value();
  opened.lines = DebugLines::open(path);
  opened.found = opened.lines != nullptr         ? Found::lines
                 : opened.elf->has_own_symbols() ? Found::names
                                                 : Found::no_names;
  return opened;
}

Symbolizer::Module& Symbolizer::opened(const NativeModule& module) {
  const File file{module.path, module.build_id};
  const auto known = modules_.find(file);
  if (known != modules_.end()) return known->second;
  if (!is_library_module(module.path)) own_.push_back(module);
  return modules_.emplace(file, open(module)).first->second;
}

// Empty: there were so many names before that this one is not shown.
std::string Symbolizer::shown_name(const std::string& symbol) {
  const auto known = names_.find(symbol);
  if (known != names_.end()) return known->second;
  std::string name = demangled(symbol);
  const std::uint64_t cost = name.size() + symbol.size();
  if (cost > left_bytes_) return {};
  left_bytes_ -= cost;
  if (name.size() > kMostShownNameBytes) {
    name.resize(kMostShownNameBytes - 3);
    name += "...";
  }
  if (names_bytes_ > kMostKeptNamesBytes) {
    names_.clear();
    names_bytes_ = 0;
  }
  names_bytes_ += cost;
  return names_.emplace(symbol, std::move(name)).first->second;
}

std::vector<SourceFrame> Symbolizer::frames_at(const NativeModule& module,
                                               std::uint64_t return_address) {
  Module& found = opened(module);
  std::vector<SourceFrame> frames;
  if (found.lines != nullptr) frames = found.lines->at(return_address);
  if (frames.empty()) frames.emplace_back();
  SourceFrame& outermost = frames.back();
  if (outermost.name.empty() && found.lines != nullptr)
    outermost.name = found.lines->symbol_at(return_address);
  if (outermost.name.empty() && found.elf != nullptr)
    outermost.name = found.elf->function_at(return_address - 1);
  // The sources of a library are where it was built: nothing that the user could open.
  const bool is_library = is_library_module(module.path);
  for (SourceFrame& frame : frames) {
    if (is_library) frame = {frame.name, module.path, 0};
    frame.name = shown_name(frame.name);
    if (frame.name.empty())
      frame.name = std::string(short_name(module.path)) + "+" + native_address_text(return_address);
    if (frame.file.empty()) frame.file = module.path;
  }
  return frames;
}

std::vector<std::string> Symbolizer::notes() const {
  std::vector<std::string> notes;
  if (own_.empty()) return notes;
  const bool has_libdw = libdw::functions() != nullptr;
  bool lacks_libdw = false;
  for (const NativeModule& module : own_) {
    const Module& found = modules_.at({module.path, module.build_id});
    const std::string& path = module.path;
    if (module.build_id.empty() && (found.found == Found::lines || found.found == Found::names))
      notes.push_back(path +
                      " has no build id: its frames are right only if it has not been built " +
                      "anew since; link it with -Wl,--build-id");
    if (found.found == Found::no_file) {
      notes.push_back(path + " is not on this machine: its frames are addresses; read the " +
                      "recording where it was made, or copy the file to the same path");
    } else if (found.found == Found::no_place) {
      notes.push_back(path + " was recorded without its folder: its frames are addresses; load " +
                      "it by its whole path and record again");
    } else if (found.found == Found::other_build) {
      notes.push_back(path + " is not the build that was recorded: its frames are addresses; " +
                      "put the build with the id " + module.build_id + " there");
    } else if (found.found != Found::lines && found.elf->has_lines() && !has_libdw) {
      lacks_libdw = true;
    } else if (found.found == Found::names) {
      notes.push_back(path + " has no debug information: its frames have no lines; compile it " +
                      "with -g");
    } else if (found.found == Found::no_names) {
      notes.push_back(path + " is stripped of its symbols: its frames are addresses; compile it " +
                      "with -g and do not strip it, or install its debug package");
    }
  }
  if (lacks_libdw)
    notes.emplace_back(
        "native frames have no lines, because libdw is not on this machine; install the package "
        "libdw1 (Debian, Ubuntu) or elfutils-libs (Fedora)");
  return notes;
}

}  // namespace gpumemprof
