#include "redirect/calls/program.h"

#include <elf.h>

#include <algorithm>

#include "redirect/kernel.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#else
constexpr int kMachine = EM_AARCH64;
#endif

// The loader ignores LD_PRELOAD in programs that run with more rights than who starts them.
bool gains_rights(int fd) {
  struct stat status{};
  if (kernel(SYS_fstat, fd, &status) < 0) {
    return true;
  }
  const auto user = static_cast<uid_t>(kernel(SYS_geteuid));
  const auto group = static_cast<gid_t>(kernel(SYS_getegid));
  if (((status.st_mode & S_ISUID) != 0 && status.st_uid != user) ||
      ((status.st_mode & S_ISGID) != 0 && status.st_gid != group)) {
    return true;
  }
  char value[64];
  return user != 0 && kernel(SYS_fgetxattr, fd, "security.capability", value, sizeof(value)) > 0;
}

bool names_loader(int fd, const Elf64_Phdr& header) {
  char loader[128];
  const long size = kernel(SYS_pread64, fd, loader,
                           std::min<size_t>(header.p_filesz, sizeof(loader)), header.p_offset);
  // Another C library's loader cannot load us.
  return size > 0 && std::string_view(loader, static_cast<size_t>(size)).find("ld-linux") !=
                         std::string_view::npos;
}

// Go makes its system calls itself.
bool has_note_of_go(int fd, const Elf64_Phdr& header) {
  char notes[1024];
  const long size = kernel(SYS_pread64, fd, notes, std::min<size_t>(header.p_filesz, sizeof(notes)),
                           header.p_offset);
  for (size_t at = 0; size > 0 && at + sizeof(Elf64_Nhdr) <= static_cast<size_t>(size);) {
    Elf64_Nhdr note{};
    std::memcpy(&note, notes + at, sizeof(note));
    const size_t name = at + sizeof(note);
    if (note.n_namesz == 4 && name + 4 <= static_cast<size_t>(size) &&
        std::memcmp(notes + name, "Go", 3) == 0) {
      return true;
    }
    at = name + (size_t{note.n_namesz} + 3) / 4 * 4 + (size_t{note.n_descsz} + 3) / 4 * 4;
  }
  return false;
}

ProgramKind examine_elf(int fd, const Elf64_Ehdr& elf) {
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != kMachine || gains_rights(fd)) {
    return ProgramKind::closed;
  }
  bool has_loader = false;
  for (int index = 0; index < elf.e_phnum; ++index) {
    Elf64_Phdr header{};
    const auto at = elf.e_phoff + static_cast<Elf64_Off>(index) * elf.e_phentsize;
    if (kernel(SYS_pread64, fd, &header, sizeof(header), at) != sizeof(header)) {
      return ProgramKind::closed;
    }
    if (header.p_type == PT_INTERP) {
      has_loader = names_loader(fd, header);
    } else if (header.p_type == PT_NOTE && has_note_of_go(fd, header)) {
      return ProgramKind::closed;
    }
  }
  return has_loader ? ProgramKind::dynamic : ProgramKind::closed;
}

std::string_view trimmed(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) {
    return {};
  }
  return part_of(text, start, text.find_last_not_of(" \t\r") - start + 1);
}

}  // namespace

ProgramKind examine_program(const char* path, Script& script) {
  const Descriptor file(kernel_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) {
    // It may be started although it cannot be read, and be anything.
    return ProgramKind::closed;
  }
  alignas(Elf64_Ehdr) char start[256] = {};
  const long size = kernel(SYS_pread64, file.get(), start, sizeof(start), 0);
  if (size >= static_cast<long>(sizeof(Elf64_Ehdr)) && std::memcmp(start, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr elf{};
    std::memcpy(&elf, start, sizeof(elf));
    return examine_elf(file.get(), elf);
  }
  if (size < 3 || start[0] != '#' || start[1] != '!') {
    return ProgramKind::other;
  }
  std::string_view line(start + 2, static_cast<size_t>(size) - 2);
  line = trimmed(part_of(line, 0, line.find('\n')));
  const size_t end = line.find_first_of(" \t");
  script.interpreter.assign(part_of(line, 0, end));
  script.argument.assign(end == std::string_view::npos ? "" : trimmed(part_of(line, end)));
  return line.empty() ? ProgramKind::other : ProgramKind::script;
}

void note_refusal(std::string_view path) {
  PathText list(scratch().folder());
  list.append("/refused");
  const Descriptor file(kernel_open(list.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  PathText line(path);
  line.append("\n");
  kernel(SYS_write, file.get(), line.data(), line.size());
}

}  // namespace gpumemprof::redirect
