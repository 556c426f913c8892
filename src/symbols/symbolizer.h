// Symbolizer: return addresses of native code → the frames that the source has there.
//
// Lines and inlined calls come from debug information, which is read with libdw where the machine
// has it; otherwise names come from the module's own table of symbols. A module is used only if it
// is the one that was recorded, by its build id, as far as it has one. What could not be found, and
// how to get it, is said in notes().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "event/native_module.h"
#include "symbols/debug_lines.h"
#include "symbols/elf_file.h"
#include "symbols/source_frame.h"

namespace gpumemprof {

class Symbolizer {
 public:
  // The frames at a return address, innermost first; at least one.
  std::vector<SourceFrame> frames_at(const NativeModule& module, std::uint64_t return_address);
  // Sentences about the user's own modules, in the order in which they were met.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  enum class Found : std::uint8_t { lines, names, no_names, other_build, no_file, no_place };
  struct Module {
    Found found = Found::no_file;
    std::unique_ptr<DebugLines> lines;
    std::unique_ptr<ElfFile> elf;
  };

  // A recording may name the same file under many keys.
  using File = std::pair<std::string, std::string>;  // path and build id

  Module& opened(const NativeModule& module);
  static Module open(const NativeModule& module);
  std::string shown_name(const std::string& symbol);

  std::map<File, Module> modules_;
  std::vector<NativeModule> own_;             // those of the user
  std::map<std::string, std::string> names_;  // by symbol: many addresses are in one function
  std::uint64_t names_bytes_ = 0;             // of names_
  std::uint64_t left_bytes_ = kMostNamesBytes;

  // Of all names together, which a forged recording or library may have without end.
  static constexpr std::uint64_t kMostNamesBytes = std::uint64_t{64} << 20;
};

// As C++ writes it; another name stays as it is, and so does one that would become longer than any
// real one.
std::string demangled(const std::string& name);

}  // namespace gpumemprof
