#include "symbols/libdw.h"

#include <dlfcn.h>

#include <cstdlib>

namespace gpumemprof::libdw {
namespace {

template <typename Function>
void find_function(void* library, const char* name, Function& function, bool& has_all) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  has_all = has_all && function != nullptr;
}

bool load(Functions& all) {
  // For those who want to see what a machine without the library gets.
  if (std::getenv("GPUMEMPROF_NO_LIBDW") != nullptr) return false;
  void* library = ::dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  bool has_all = true;
  const auto find = [&](const char* name, auto& function) {
    find_function(library, name, function, has_all);
  };
  find("dwfl_begin", all.dwfl_begin);
  find("dwfl_end", all.dwfl_end);
  find("dwfl_report_elf", all.dwfl_report_elf);
  find("dwfl_report_end", all.dwfl_report_end);
  find("dwfl_module_getdwarf", all.dwfl_module_getdwarf);
  find("dwfl_module_addrname", all.dwfl_module_addrname);
  find("dwfl_module_addrdie", all.dwfl_module_addrdie);
  find("dwfl_module_nextcu", all.dwfl_module_nextcu);
  find("dwarf_getsrc_die", all.dwarf_getsrc_die);
  find("dwarf_lineno", all.dwarf_lineno);
  find("dwarf_linesrc", all.dwarf_linesrc);
  find("dwarf_tag", all.dwarf_tag);
  find("dwarf_child", all.dwarf_child);
  find("dwarf_siblingof", all.dwarf_siblingof);
  find("dwarf_haspc", all.dwarf_haspc);
  find("dwarf_ranges", all.dwarf_ranges);
  find("dwarf_diename", all.dwarf_diename);
  find("dwarf_attr", all.dwarf_attr);
  find("dwarf_attr_integrate", all.dwarf_attr_integrate);
  find("dwarf_formstring", all.dwarf_formstring);
  find("dwarf_formudata", all.dwarf_formudata);
  find("dwarf_getsrcfiles", all.dwarf_getsrcfiles);
  find("dwarf_filesrc", all.dwarf_filesrc);
  find("dwfl_build_id_find_elf", all.callbacks.find_elf);
  find("dwfl_standard_find_debuginfo", all.callbacks.find_debuginfo);
  find("dwfl_offline_section_address", all.callbacks.section_address);
  return has_all;
}

}  // namespace

const Functions* functions() {
  static Functions all{};
  static const bool kIsThere = load(all);
  return kIsThere ? &all : nullptr;
}

}  // namespace gpumemprof::libdw
