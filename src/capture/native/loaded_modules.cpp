#include "capture/native/loaded_modules.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

constexpr std::uint32_t kBuildIdNote = 3;

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length <= 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(length));
}

// The file that is mapped where this code is; empty if it is not known.
std::string file_mapped_at(std::uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    AddressRange range;
    const char* const end = line.data() + line.size();
    const auto begin_read = std::from_chars(line.data(), end, range.begin, 16);
    if (begin_read.ptr == end) continue;
    std::from_chars(begin_read.ptr + 1, end, range.end, 16);
    if (!range.holds(address)) continue;
    const std::size_t path = line.find('/');
    return path == std::string::npos ? std::string() : line.substr(path);
  }
  return {};
}

std::string hexadecimal(const std::uint8_t* bytes, std::size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t index = 0; index < count; ++index) {
    text += kDigits[bytes[index] >> 4U];
    text += kDigits[bytes[index] & 0xFU];
  }
  return text;
}

// The build id among the notes of a module; empty if it has none.
std::string build_id_in(const std::uint8_t* notes, std::size_t length) {
  const auto padded = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
  while (length >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes, sizeof(head));
    const std::size_t name_bytes = padded(head.n_namesz);
    const std::size_t whole = sizeof(head) + name_bytes + padded(head.n_descsz);
    if (whole > length) return {};
    if (head.n_type == kBuildIdNote && head.n_namesz == 4 &&
        std::memcmp(notes + sizeof(head), "GNU", 4) == 0)
      return hexadecimal(notes + sizeof(head) + name_bytes, head.n_descsz);
    notes += whole;
    length -= whole;
  }
  return {};
}

std::string build_id_of(const dl_phdr_info& module) {
  for (std::size_t index = 0; index < module.dlpi_phnum; ++index) {
    const ElfW(Phdr) & part = module.dlpi_phdr[index];
    if (part.p_type != PT_NOTE) continue;
    std::string found =
        build_id_in(pointer_at<const std::uint8_t>(module.dlpi_addr + part.p_vaddr), part.p_memsz);
    if (!found.empty()) return found;
  }
  return {};
}

template <typename Visit>
void for_each_code(const dl_phdr_info& module, const Visit& visit) {
  for (std::size_t index = 0; index < module.dlpi_phnum; ++index) {
    const ElfW(Phdr) & part = module.dlpi_phdr[index];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = module.dlpi_addr + part.p_vaddr;
    visit(AddressRange{begin, begin + part.p_memsz});
  }
}

struct CodeSearch {
  std::uintptr_t address = 0;
  AddressRange found;
};

int search_code(dl_phdr_info* module, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<CodeSearch*>(data);
  bool is_here = false;
  for_each_code(*module, [&](const AddressRange& range) {
    if (!range.holds(search.address)) return;
    search.found = range;
    is_here = true;
  });
  return is_here ? 1 : 0;
}

}  // namespace

struct LoadedModules::Reading {
  LoadedModules& modules;
  bool is_first = true;

  static int visit(dl_phdr_info* module, std::size_t /*size*/, void* data) {
    auto& reading = *static_cast<Reading*>(data);
    LoadedModules& mine = reading.modules;
    mine.read_at_ = {module->dlpi_adds, module->dlpi_subs};
    // The program itself comes first, and has no name.
    std::string path = module->dlpi_name == nullptr ? "" : module->dlpi_name;
    if (path.empty() && reading.is_first) path = own_program();
    reading.is_first = false;
    AddressRange code;
    for_each_code(*module, [&](const AddressRange& range) { code = range; });
    if (code.end == 0) return 0;
    // dlopen("./plugin.so"): whoever reads the recording is in another folder, as the program may
    // be.
    if (!path.starts_with('/')) {
      if (std::string mapped = file_mapped_at(code.begin); !mapped.empty())
        path = std::move(mapped);
    }
    const std::uint32_t number = mine.number_of(path, build_id_of(*module));
    for_each_code(*module, [&](const AddressRange& range) {
      mine.parts_.push_back({range, module->dlpi_addr, number});
    });
    return 0;
  }

  static int count(dl_phdr_info* module, std::size_t /*size*/, void* data) {
    *static_cast<Changes*>(data) = {module->dlpi_adds, module->dlpi_subs};
    return 1;
  }
};

std::uint32_t LoadedModules::number_of(const std::string& path, const std::string& build_id) {
  std::uint32_t same_path = 0;
  for (std::uint32_t number = 0; number < modules_.size(); ++number) {
    if (modules_[number].path != path) continue;
    if (modules_[number].build_id == build_id) return number;
    ++same_path;
  }
  NativeModule module{path, path, build_id};
  if (same_path > 0) module.key += " (" + std::to_string(same_path + 1) + ")";
  modules_.push_back(std::move(module));
  return static_cast<std::uint32_t>(modules_.size() - 1);
}

void LoadedModules::read_all() {
  parts_.clear();
  Reading reading{*this};
  ::dl_iterate_phdr(Reading::visit, &reading);
  std::ranges::sort(parts_, {}, [](const Part& part) { return part.range.begin; });
}

LoadedModules::Changes LoadedModules::changes() {
  Changes now;
  ::dl_iterate_phdr(Reading::count, &now);
  return now;
}

bool LoadedModules::have_some_gone() {
  const Changes now = changes();
  const bool have_gone = now.unloaded != last_seen_.unloaded;
  last_seen_ = now;
  return have_gone;
}

const LoadedModules::Part* LoadedModules::part_of(std::uintptr_t address) const {
  const auto after = std::ranges::upper_bound(parts_, address, {},
                                              [](const Part& part) { return part.range.begin; });
  if (after == parts_.begin() || !std::prev(after)->range.holds(address)) return nullptr;
  return &*std::prev(after);
}

std::optional<LoadedModules::Place> LoadedModules::find(std::uintptr_t address) {
  // A call may be the last instruction of its module.
  const std::uintptr_t call = address - 1;
  if (parts_.empty() || changes() != read_at_) read_all();
  const Part* part = part_of(call);
  if (part == nullptr) return std::nullopt;
  return Place{part->module, address - part->base};
}

AddressRange code_of_module_at(std::uintptr_t address) {
  CodeSearch search{address, {}};
  ::dl_iterate_phdr(search_code, &search);
  return search.found;
}

}  // namespace gpumemprof::capture
