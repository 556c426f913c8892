#include "symbols/libdw.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace gpumemprof::libdw {
namespace {

using FindDebugFile = int (*)(Module* module, void** user, const char* name, std::uint64_t base,
                              const char* file, const char* link, std::uint32_t checksum,
                              char** found);
FindDebugFile standard_find_debug_file = nullptr;

bool is_no_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

// The library opens whatever has the name of a file with debug information, and to open a pipe
// waits for ever. Only whoever put the module there can have put one beside it.
int find_debug_file(Module* module, void** user, const char* name, std::uint64_t base,
                    const char* file, const char* link, std::uint32_t checksum, char** found) {
  constexpr int kNotFound = -1;
  if (file != nullptr) {
    const std::filesystem::path given(file);
    std::error_code unknown;
    for (const std::filesystem::path& path : {given, std::filesystem::canonical(given, unknown)}) {
      const std::string wanted =
          link == nullptr ? path.filename().string() + ".debug" : std::string(link);
      if (is_no_file(path.parent_path() / wanted) ||
          is_no_file(path.parent_path() / ".debug" / wanted))
        return kNotFound;
    }
  }
  return standard_find_debug_file(module, user, name, base, file, link, checksum, found);
}

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
  find("dwfl_standard_find_debuginfo", standard_find_debug_file);
  all.callbacks.find_debuginfo = reinterpret_cast<void*>(&find_debug_file);
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
