// DebugLines: the lines of one module, from its debug information or a separate file of that, with
// the calls that the compiler inlined.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "symbols/libdw.h"
#include "symbols/source_frame.h"

namespace gpumemprof {

class DebugLines {
 public:
  // nullptr: the module has no debug information, or libdw is not there.
  static std::unique_ptr<DebugLines> open(const std::string& path);
  DebugLines(const DebugLines&) = delete;
  DebugLines& operator=(const DebugLines&) = delete;
  ~DebugLines();

  // The frames at the call before a return address, innermost first; none: not known. Names are
  // mangled where C++ mangles them.
  std::vector<SourceFrame> at(std::uint64_t return_address);
  // The name in the table of symbols, which a separate file may have; empty: not known.
  std::string symbol_at(std::uint64_t return_address);

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    libdw::Die die{};
  };
  // A unit of compilation: what is in it is listed once.
  struct Unit {
    libdw::Die die{};
    std::vector<Range> functions;  // by their beginning
    std::string folder;            // where it was compiled, which its files may be relative to
  };

  DebugLines(const libdw::Functions& functions, libdw::Dwfl* session, libdw::Module* module)
      : dw_(functions), session_(session), module_(module) {}

  Unit* unit_at(std::uint64_t address, std::uint64_t& bias);
  void list_units();
  void list_functions(libdw::Die* parent, Unit& unit, int depth);
  void add_ranges(libdw::Die& die, std::vector<Range>& ranges) const;
  static libdw::Die* innermost(std::vector<Range>& ranges, std::uint64_t address);
  void list_inlined(libdw::Die* parent, std::uint64_t address, std::vector<libdw::Die>& inlined);
  std::string linkage_name(libdw::Die& die) const;
  std::string name_of(libdw::Die& die) const;
  SourceFrame line_at(Unit& unit, std::uint64_t address) const;
  SourceFrame call_of(libdw::Die& inlined, Unit& unit) const;
  std::string text_of(libdw::Die& die, unsigned wanted) const;
  static std::string whole_path(const Unit& unit, const char* file);

  const libdw::Functions& dw_;
  libdw::Dwfl* session_;
  libdw::Module* module_;
  std::map<void*, Unit> units_;     // by the address of their entry
  std::vector<Range> unit_ranges_;  // of modules that do not list them; by their beginning
  bool has_unit_ranges_ = false;
};

}  // namespace gpumemprof
