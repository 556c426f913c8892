#include "symbols/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "symbols/source_frame.h"

namespace gpumemprof {
namespace {

// The largest tables of functions are those of torch's libraries, tens of megabytes.
constexpr std::uint64_t kMostTableBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMostSections = 4096;
constexpr std::size_t kMostParts = 1024;

template <typename T>
T table_row(const std::vector<std::uint8_t>& bytes, std::size_t row) {
  T value;
  std::memcpy(&value, bytes.data() + (row * sizeof(T)), sizeof(T));
  return value;
}

Error not_readable(const std::string& path, std::string message) {
  return {ErrorCode::bad_input, std::move(message), path, ""};
}

}  // namespace

Result<std::unique_ptr<ElfFile>> ElfFile::open(const std::string& path) {
  // A recording may name anything, and to open a device may already do something.
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) return not_readable(path, "no such file");
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  std::unique_ptr<ElfFile> elf(new ElfFile(std::move(file).value()));
  if (!elf->read_header()) return not_readable(path, "not a program or library");
  return elf;
}

std::vector<std::uint8_t> ElfFile::bytes_at(std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t file_bytes = file_->size_bytes();
  if (size > kMostTableBytes || offset > file_bytes || size > file_bytes - offset) return {};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  file_->move_to(offset);
  std::size_t have = 0;
  while (have < bytes.size()) {
    const Result<std::size_t> got =
        file_->read(std::as_writable_bytes(std::span(bytes).subspan(have)));
    if (!got || got.value() == 0) return {};
    have += got.value();
  }
  return bytes;
}

bool ElfFile::read_header() {
  const std::vector<std::uint8_t> bytes = bytes_at(0, sizeof(Elf64_Ehdr));
  if (bytes.empty() || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0 ||
      bytes[EI_CLASS] != ELFCLASS64 || bytes[EI_DATA] != ELFDATA2LSB)
    return false;
  const auto header = table_row<Elf64_Ehdr>(bytes, 0);
  if (header.e_phentsize == sizeof(Elf64_Phdr) && header.e_phnum <= kMostParts) {
    const std::vector<std::uint8_t> parts =
        bytes_at(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
    for (std::size_t row = 0; row < parts.size() / sizeof(Elf64_Phdr); ++row) {
      const auto part = table_row<Elf64_Phdr>(parts, row);
      if (part.p_type == PT_NOTE && build_id_.empty()) read_notes(part.p_offset, part.p_filesz);
    }
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMostSections) return true;
  const std::vector<std::uint8_t> rows =
      bytes_at(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (std::size_t row = 0; row < rows.size() / sizeof(Elf64_Shdr); ++row) {
    const auto section = table_row<Elf64_Shdr>(rows, row);
    sections_.push_back({section.sh_name, section.sh_type, section.sh_offset, section.sh_size,
                         section.sh_link, section.sh_entsize});
    has_own_symbols_ |= section.sh_type == SHT_SYMTAB;
    // The notes of a file with debug information alone are found by its sections.
    if (section.sh_type == SHT_NOTE && build_id_.empty())
      read_notes(section.sh_offset, section.sh_size);
  }
  if (header.e_shstrndx >= sections_.size()) return true;
  const Section& names = sections_[header.e_shstrndx];
  const std::vector<std::uint8_t> text = bytes_at(names.offset, names.size);
  constexpr std::string_view kLines = ".debug_line";
  for (const Section& section : sections_) {
    if (section.name >= text.size() || text.size() - section.name <= kLines.size()) continue;
    has_lines_ |= std::memcmp(text.data() + section.name, kLines.data(), kLines.size()) == 0 &&
                  text[section.name + kLines.size()] == 0;
  }
  return true;
}

void ElfFile::read_notes(std::uint64_t offset, std::uint64_t size) {
  constexpr std::uint64_t kMostNotes = 1 << 16;
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto padded = [](std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t{3}; };
  const std::vector<std::uint8_t> notes = bytes_at(offset, std::min(size, kMostNotes));
  std::uint64_t at = 0;
  while (notes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof(note));
    const std::uint64_t content = at + sizeof(note) + padded(note.n_namesz);
    const std::uint64_t end = content + padded(note.n_descsz);
    if (end > notes.size()) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
        std::memcmp(notes.data() + at + sizeof(note), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
      for (std::uint64_t byte = content; byte < content + note.n_descsz; ++byte) {
        build_id_ += kDigits[notes[byte] >> 4U];
        build_id_ += kDigits[notes[byte] & 0xFU];
      }
      return;
    }
    at = end;
  }
}

void ElfFile::read_functions() {
  has_functions_ = true;
  // The whole table where there is one: it contains what others use, too.
  const std::uint32_t wanted = has_own_symbols_ ? SHT_SYMTAB : SHT_DYNSYM;
  const auto table = std::ranges::find(sections_, wanted, &Section::type);
  if (table == sections_.end() || table->link >= sections_.size() ||
      table->entry_size != sizeof(Elf64_Sym))
    return;
  names_ = bytes_at(sections_[table->link].offset, sections_[table->link].size);
  const std::vector<std::uint8_t> rows = bytes_at(table->offset, table->size);
  for (std::size_t row = 0; row < rows.size() / sizeof(Elf64_Sym); ++row) {
    const auto symbol = table_row<Elf64_Sym>(rows, row);
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF ||
        symbol.st_name >= names_.size())
      continue;
    functions_.push_back({symbol.st_value, symbol.st_size, symbol.st_name});
  }
  std::ranges::sort(functions_, {}, &Function::begin);
}

std::string_view ElfFile::function_at(std::uint64_t address) {
  if (!has_functions_) read_functions();
  auto after = std::ranges::upper_bound(functions_, address, {}, &Function::begin);
  // Several may begin at one place, and one without a size may be in another.
  for (int steps = 0; after != functions_.begin() && steps < 8; ++steps) {
    --after;
    if (address - after->begin >= after->size) continue;
    const char* begin = reinterpret_cast<const char*>(names_.data()) + after->name;
    const std::size_t most = std::min(names_.size() - after->name, kMostSymbolBytes + 1);
    const std::size_t length = ::strnlen(begin, most);
    return length > kMostSymbolBytes ? std::string_view() : std::string_view(begin, length);
  }
  return {};
}

}  // namespace gpumemprof
