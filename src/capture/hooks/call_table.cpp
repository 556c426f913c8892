#include "capture/hooks/call_table.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string_view>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr std::uint32_t kGlobalData = R_X86_64_GLOB_DAT;
#else
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr std::uint32_t kGlobalData = R_AARCH64_GLOB_DAT;
#endif

struct Request {
  std::string_view library;
  std::string_view symbol;
  bool is_for_all = false;
  void* target = nullptr;
  int changed = 0;
};

struct Relocations {
  const ElfW(Rela) * first = nullptr;
  std::size_t count = 0;
};

struct DynamicTables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  Relocations calls;
  Relocations data;
};

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

template <typename T>
const T* at(const dl_phdr_info& info, std::uintptr_t address) {
  // glibc stores addresses, other C libraries offsets.
  if (address < info.dlpi_addr) address += info.dlpi_addr;
  return pointer_at<const T>(address);
}

DynamicTables read_tables(const dl_phdr_info& info, const ElfW(Dyn) * entry) {
  DynamicTables tables;
  for (; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        tables.symbols = at<ElfW(Sym)>(info, entry->d_un.d_ptr);
        break;
      case DT_STRTAB:
        tables.names = at<char>(info, entry->d_un.d_ptr);
        break;
      case DT_JMPREL:
        tables.calls.first = at<ElfW(Rela)>(info, entry->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        tables.calls.count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_RELA:
        tables.data.first = at<ElfW(Rela)>(info, entry->d_un.d_ptr);
        break;
      case DT_RELASZ:
        tables.data.count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      default:
        break;
    }
  }
  return tables;
}

// Pages that the loader made read-only after filling them are made read-only again afterwards.
bool write_entry(std::uintptr_t entry, void* target, const Range& read_only) {
  const auto page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* page = pointer_at<void>(entry & ~(page_size - 1));
  const bool is_read_only = entry >= read_only.begin && entry < read_only.end;
  if (is_read_only && ::mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref<void*>(*pointer_at<void*>(entry)).store(target, std::memory_order_release);
  if (is_read_only) ::mprotect(page, page_size, PROT_READ);
  return true;
}

void redirect(const dl_phdr_info& info, const DynamicTables& tables, const Relocations& relocations,
              const Range& read_only, Request& request) {
  for (std::size_t index = 0; index < relocations.count; ++index) {
    const ElfW(Rela) & relocation = relocations.first[index];
    const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info));
    if (type != kJumpSlot && type != kGlobalData) continue;
    const char* name = tables.names + tables.symbols[ELF64_R_SYM(relocation.r_info)].st_name;
    if (request.symbol != name) continue;
    if (write_entry(info.dlpi_addr + relocation.r_offset, request.target, read_only))
      ++request.changed;
  }
}

std::string_view file_name_of(const dl_phdr_info& info) {
  const std::string_view path = info.dlpi_name;
  return path.substr(path.find_last_of('/') + 1);
}

int find_library(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  return file_name_of(*info) == *static_cast<const std::string*>(data) ? 1 : 0;
}

int visit_library(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  Request& request = *static_cast<Request*>(data);
  if (!request.is_for_all && file_name_of(*info) != request.library) return 0;
  const int following = request.is_for_all ? 0 : 1;
  const ElfW(Dyn)* dynamic = nullptr;
  Range read_only;
  for (int index = 0; index < info->dlpi_phnum; ++index) {
    const ElfW(Phdr) & header = info->dlpi_phdr[index];
    if (header.p_type == PT_DYNAMIC)
      dynamic = pointer_at<const ElfW(Dyn)>(info->dlpi_addr + header.p_vaddr);
    if (header.p_type == PT_GNU_RELRO) {
      read_only.begin = info->dlpi_addr + header.p_vaddr;
      read_only.end = read_only.begin + header.p_memsz;
    }
  }
  if (dynamic == nullptr) return following;
  const DynamicTables tables = read_tables(*info, dynamic);
  if (tables.symbols == nullptr || tables.names == nullptr) return following;
  redirect(*info, tables, tables.calls, read_only, request);
  redirect(*info, tables, tables.data, read_only, request);
  return following;
}

int read_load_count(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  *static_cast<std::uint64_t*>(data) = info->dlpi_adds;
  return 1;
}

}  // namespace

int redirect_calls(const std::string& library, const std::string& symbol, void* target) {
  Request request{library, symbol, false, target};
  ::dl_iterate_phdr(visit_library, &request);
  return request.changed;
}

int redirect_all_calls(const std::string& symbol, void* target) {
  Request request{"", symbol, true, target};
  ::dl_iterate_phdr(visit_library, &request);
  return request.changed;
}

bool is_library_loaded(const std::string& library) {
  return ::dl_iterate_phdr(find_library, const_cast<std::string*>(&library)) != 0;
}

std::uint64_t loaded_library_count() {
  std::uint64_t count = 0;
  ::dl_iterate_phdr(read_load_count, &count);
  return count;
}

}  // namespace gpumemprof::capture
