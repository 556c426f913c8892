// ElfFile: what can be read from a program or library without any library: its build id and the
// names of its functions.
//
// A file is never trusted: every offset is checked, and one that contradicts itself has no build id
// and no functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"

namespace gpumemprof {

class ElfFile {
 public:
  // Fails if it is not a regular file, or not an ELF file of 64 bits.
  static Result<std::unique_ptr<ElfFile>> open(const std::string& path);

  [[nodiscard]] const std::string& build_id() const { return build_id_; }
  // The function at an address as the module counts it, mangled; empty: not known, or longer than
  // any real one.
  std::string_view function_at(std::uint64_t address);
  // Whether it has names of more than the functions that other modules use.
  [[nodiscard]] bool has_own_symbols() const { return has_own_symbols_; }
  // Whether it has lines, itself.
  [[nodiscard]] bool has_lines() const { return has_lines_; }

 private:
  struct Section {
    std::uint32_t name = 0;
    std::uint32_t type = 0;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint32_t link = 0;
    std::uint64_t entry_size = 0;
  };
  struct Function {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::uint32_t name = 0;  // where in names_
  };

  explicit ElfFile(std::unique_ptr<FileSource> file) : file_(std::move(file)) {}

  bool read_header();
  void read_notes(std::uint64_t offset, std::uint64_t size);
  void read_functions();
  // Empty: it is not there.
  std::vector<std::uint8_t> bytes_at(std::uint64_t offset, std::uint64_t size);

  std::unique_ptr<FileSource> file_;
  std::string build_id_;
  std::vector<Section> sections_;
  bool has_own_symbols_ = false;
  bool has_lines_ = false;
  bool has_functions_ = false;       // they have been read
  std::vector<Function> functions_;  // by address
  std::vector<std::uint8_t> names_;
};

}  // namespace gpumemprof
