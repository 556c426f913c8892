// Libdw: the functions of elfutils' libdw that read debug information, found at run time.
//
// Neither its headers nor the library are needed to build: a wheel has neither, and a machine that
// has the library gets lines. The declarations are those of <elfutils/libdwfl.h>, whose interface
// has been the same since 2009; tests/cpp/symbols compares the two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemprof::libdw {

struct Dwfl;
struct Module;
struct Line;
struct Files;
struct Unit;
struct Abbreviation;

struct Die {
  void* address;
  Unit* unit;
  Abbreviation* abbreviation;
  long padding;
};
struct Attribute {
  unsigned int code;
  unsigned int form;
  unsigned char* value;
  Unit* unit;
};
struct Callbacks {
  void* find_elf;
  void* find_debuginfo;
  void* section_address;
  char** debuginfo_path;
};

// DWARF's numbers.
inline constexpr int kInlinedFunction = 0x1D;
inline constexpr int kFunction = 0x2E;
inline constexpr int kLexicalBlock = 0x0B;
inline constexpr unsigned kLinkageName = 0x6E;
inline constexpr unsigned kOldLinkageName = 0x2007;
inline constexpr unsigned kCallFile = 0x58;
inline constexpr unsigned kCompilationFolder = 0x1B;
inline constexpr unsigned kCallLine = 0x59;

struct Functions {
  Dwfl* (*dwfl_begin)(const Callbacks* callbacks);
  void (*dwfl_end)(Dwfl* session);
  Module* (*dwfl_report_elf)(Dwfl* session, const char* name, const char* path, int descriptor,
                             std::uint64_t base, bool adds_addresses);
  int (*dwfl_report_end)(Dwfl* session, void* removed, void* argument);
  void* (*dwfl_module_getdwarf)(Module* module, std::uint64_t* bias);
  const char* (*dwfl_module_addrname)(Module* module, std::uint64_t address);
  Die* (*dwfl_module_addrdie)(Module* module, std::uint64_t address, std::uint64_t* bias);
  Die* (*dwfl_module_nextcu)(Module* module, Die* last, std::uint64_t* bias);
  Line* (*dwarf_getsrc_die)(Die* unit, std::uint64_t address);
  int (*dwarf_lineno)(Line* line, int* number);
  const char* (*dwarf_linesrc)(Line* line, std::uint64_t* time, std::uint64_t* length);
  int (*dwarf_tag)(Die* die);
  int (*dwarf_child)(Die* die, Die* child);
  int (*dwarf_siblingof)(Die* die, Die* sibling);
  int (*dwarf_haspc)(Die* die, std::uint64_t address);
  std::ptrdiff_t (*dwarf_ranges)(Die* die, std::ptrdiff_t offset, std::uint64_t* base,
                                 std::uint64_t* begin, std::uint64_t* end);
  const char* (*dwarf_diename)(Die* die);
  Attribute* (*dwarf_attr)(Die* die, unsigned name, Attribute* result);
  Attribute* (*dwarf_attr_integrate)(Die* die, unsigned name, Attribute* result);
  const char* (*dwarf_formstring)(Attribute* attribute);
  int (*dwarf_formudata)(Attribute* attribute, std::uint64_t* value);
  int (*dwarf_getsrcfiles)(Die* unit, Files** files, std::size_t* count);
  const char* (*dwarf_filesrc)(Files* files, std::size_t index, std::uint64_t* time,
                               std::uint64_t* length);
  Callbacks callbacks;
};

// nullptr: the library is not on this machine. Loaded when first asked for, and kept.
const Functions* functions();

}  // namespace gpumemprof::libdw
