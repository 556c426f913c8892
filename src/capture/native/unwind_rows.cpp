#include "capture/native/unwind_rows.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "capture/native/frame_program.h"

namespace gpumemprof::capture {
namespace {

// As glibc declares it from 2.35 on; we are also built for older ones.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  void* link_map;
  void* eh_frame_header;
  std::array<unsigned long long, 7> reserved;
};
using FindObject = int (*)(void* address, FoundObject* result);

struct Wanted {
  std::uintptr_t address = 0;
  const std::uint8_t* header = nullptr;
};

int look_at_module(dl_phdr_info* module, std::size_t /*size*/, void* data) {
  auto& wanted = *static_cast<Wanted*>(data);
  const std::uint8_t* header = nullptr;
  bool is_here = false;
  for (std::size_t index = 0; index < module->dlpi_phnum; ++index) {
    const ElfW(Phdr) & part = module->dlpi_phdr[index];
    const std::uintptr_t begin = module->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD)
      is_here |= wanted.address >= begin && wanted.address - begin < part.p_memsz;
    if (part.p_type == PT_GNU_EH_FRAME) header = pointer_at<const std::uint8_t>(begin);
  }
  if (!is_here) return 0;
  wanted.header = header;
  return 1;
}

FindObject loader_lookup() {
  static const auto kFindObject =
      reinterpret_cast<FindObject>(::dlsym(RTLD_DEFAULT, "_dl_find_object"));
  return kFindObject;
}

const std::uint8_t* find_header(std::uintptr_t address) {
  if (const FindObject find = loader_lookup(); find != nullptr) {
    FoundObject found{};
    if (find(pointer_at<void>(address), &found) != 0) return nullptr;
    return static_cast<const std::uint8_t*>(found.eh_frame_header);
  }
  Wanted wanted{address, nullptr};
  ::dl_iterate_phdr(look_at_module, &wanted);
  return wanted.header;
}

// The entries of .eh_frame_hdr that all linkers write: signed, of 32 bits, relative to its start.
constexpr std::uint8_t kTableEncoding = 0x3B;
constexpr std::uint8_t kCountEncoding = 0x03;
struct TableEntry {
  std::int32_t first = 0;
  std::int32_t description = 0;
};

TableEntry entry_at(const std::uint8_t* table, std::size_t index) {
  TableEntry entry;
  std::memcpy(&entry, table + (index * sizeof(entry)), sizeof(entry));
  return entry;
}

}  // namespace

void prepare_unwind_rows() { loader_lookup(); }

UnwindRule read_unwind_rule_in(const std::uint8_t* header, std::uintptr_t return_address) {
  // Version, then three encodings: of the pointer to .eh_frame, the count and the table.
  if (header == nullptr || header[0] != 1 || header[2] != kCountEncoding ||
      header[3] != kTableEncoding)
    return {};
  const std::size_t pointer_bytes = encoded_bytes(header[1]);
  if (pointer_bytes == 0) return {};
  std::uint32_t count = 0;
  std::memcpy(&count, header + 4 + pointer_bytes, sizeof(count));
  const std::uint8_t* table = header + 4 + pointer_bytes + sizeof(count);
  const std::uintptr_t address = return_address - 1;
  const auto wanted = static_cast<std::int64_t>(address - reinterpret_cast<std::uintptr_t>(header));
  std::size_t low = 0;
  std::size_t high = count;
  while (low < high) {
    const std::size_t middle = low + ((high - low) / 2);
    if (entry_at(table, middle).first <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return {};
  return rule_of_description(header + entry_at(table, low - 1).description, address);
}

UnwindRule read_unwind_rule(std::uintptr_t return_address) {
  return read_unwind_rule_in(find_header(return_address - 1), return_address);
}

}  // namespace gpumemprof::capture
