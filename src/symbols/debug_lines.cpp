#include "symbols/debug_lines.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <ranges>
#include <string_view>

namespace gpumemprof {
namespace {

// Scopes are nested a few dozen deep at most; a forged file nests them without end.
constexpr int kMostScopes = 256;

// Whether a symbol may be the mangled name of this function: functions that compile to the same
// code may be one, with the symbols of all.
bool is_name_of(std::string_view symbol, std::string_view name) {
  if (symbol.empty() || name.empty()) return !symbol.empty();
  return name.starts_with("operator") ||
         symbol.find(name.substr(0, name.find('<'))) != std::string_view::npos;
}

// Empty: there is none, or it is longer than any real one.
std::string short_text(const char* text, std::size_t most_bytes = kMostSymbolBytes) {
  if (text == nullptr) return {};
  const std::size_t length = ::strnlen(text, most_bytes + 1);
  return length > most_bytes ? std::string() : std::string(text, length);
}

}  // namespace

std::unique_ptr<DebugLines> DebugLines::open(const std::string& path) {
  const libdw::Functions* dw = libdw::functions();
  if (dw == nullptr) return nullptr;
  libdw::Dwfl* session = dw->dwfl_begin(&dw->callbacks);
  if (session == nullptr) return nullptr;
  libdw::Module* module = dw->dwfl_report_elf(session, path.c_str(), path.c_str(), -1, 0, true);
  dw->dwfl_report_end(session, nullptr, nullptr);
  std::uint64_t bias = 0;
  if (module == nullptr || dw->dwfl_module_getdwarf(module, &bias) == nullptr) {
    dw->dwfl_end(session);
    return nullptr;
  }
  return std::unique_ptr<DebugLines>(new DebugLines(*dw, session, module));
}

DebugLines::~DebugLines() { dw_.dwfl_end(session_); }

std::string DebugLines::symbol_at(std::uint64_t return_address) {
  return short_text(dw_.dwfl_module_addrname(module_, return_address - 1));
}

std::vector<SourceFrame> DebugLines::at(std::uint64_t return_address) {
  const std::uint64_t call = return_address - 1;
  std::vector<SourceFrame> frames;
  std::uint64_t bias = 0;
  Unit* unit = unit_at(call, bias);
  if (unit == nullptr) return frames;
  SourceFrame frame = line_at(*unit, call - bias);
  libdw::Die* function = innermost(unit->functions, call - bias);
  if (function == nullptr) {
    if (!frame.file.empty()) frames.push_back(frame);
    return frames;
  }
  std::vector<libdw::Die> inlined;  // outermost first
  list_inlined(function, call - bias, inlined);
  // The innermost function is at the line itself, and each other at the call of the one in it.
  for (libdw::Die& die : std::views::reverse(inlined)) {
    frame.name = name_of(die);
    frames.push_back(frame);
    frame = call_of(die, *unit);
  }
  // A function that no other unit may call has its whole name in the table of symbols alone.
  frame.name = linkage_name(*function);
  if (frame.name.empty()) {
    frame.name = name_of(*function);
    std::string symbol = symbol_at(return_address);
    if (is_name_of(symbol, frame.name)) frame.name = std::move(symbol);
  }
  frames.push_back(frame);
  return frames;
}

// Make and others name sources relative to the folder they compile in.
std::string DebugLines::whole_path(const Unit& unit, const char* file) {
  const std::filesystem::path path(short_text(file, kMostSourcePathBytes));
  if (path.empty() || path.is_absolute() || !unit.folder.starts_with('/')) return path.string();
  return (unit.folder / path).lexically_normal().string();
}

SourceFrame DebugLines::line_at(Unit& unit, std::uint64_t address) const {
  SourceFrame found;
  libdw::Line* line = dw_.dwarf_getsrc_die(&unit.die, address);
  const char* file = line == nullptr ? nullptr : dw_.dwarf_linesrc(line, nullptr, nullptr);
  int number = 0;
  if (file == nullptr || dw_.dwarf_lineno(line, &number) != 0) return found;
  found.file = whole_path(unit, file);
  if (found.file.empty()) return found;
  found.line = static_cast<std::uint32_t>(std::max(number, 0));
  return found;
}

DebugLines::Unit* DebugLines::unit_at(std::uint64_t address, std::uint64_t& bias) {
  libdw::Die* die = dw_.dwfl_module_addrdie(module_, address, &bias);
  if (die == nullptr) {  // clang writes no list of units by address
    if (!has_unit_ranges_) list_units();
    dw_.dwfl_module_getdwarf(module_, &bias);
    die = innermost(unit_ranges_, address - bias);
    if (die == nullptr) return nullptr;
  }
  const auto [entry, is_new] = units_.try_emplace(die->address);
  Unit& unit = entry->second;
  if (is_new) {
    unit.die = *die;
    unit.folder = text_of(unit.die, libdw::kCompilationFolder);
    if (unit.folder.size() > kMostSourcePathBytes) unit.folder.clear();
    list_functions(die, unit, 0);
    std::ranges::sort(unit.functions, {}, &Range::begin);
  }
  return &unit;
}

void DebugLines::list_units() {
  has_unit_ranges_ = true;
  std::uint64_t bias = 0;
  for (libdw::Die* unit = dw_.dwfl_module_nextcu(module_, nullptr, &bias); unit != nullptr;
       unit = dw_.dwfl_module_nextcu(module_, unit, &bias))
    add_ranges(*unit, unit_ranges_);
  std::ranges::sort(unit_ranges_, {}, &Range::begin);
}

void DebugLines::add_ranges(libdw::Die& die, std::vector<Range>& ranges) const {
  std::uint64_t base = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  for (std::ptrdiff_t offset = dw_.dwarf_ranges(&die, 0, &base, &begin, &end); offset > 0;
       offset = dw_.dwarf_ranges(&die, offset, &base, &begin, &end))
    if (begin < end) ranges.push_back({begin, end, die});
}

// A function may be defined inside a namespace, a class or another function.
void DebugLines::list_functions(libdw::Die* parent, Unit& unit, int depth) {
  libdw::Die die{};
  if (depth > kMostScopes || dw_.dwarf_child(parent, &die) != 0) return;
  do {
    if (dw_.dwarf_tag(&die) == libdw::kFunction) add_ranges(die, unit.functions);
    list_functions(&die, unit, depth + 1);
  } while (dw_.dwarf_siblingof(&die, &die) == 0);
}

// Functions do not overlap, except for those that a linker found to be the same.
libdw::Die* DebugLines::innermost(std::vector<Range>& ranges, std::uint64_t address) {
  auto after = std::ranges::upper_bound(ranges, address, {}, &Range::begin);
  for (int steps = 0; after != ranges.begin() && steps < 8; ++steps) {
    --after;
    if (address < after->end) return &after->die;
  }
  return nullptr;
}

void DebugLines::list_inlined(libdw::Die* parent, std::uint64_t address,
                              std::vector<libdw::Die>& inlined) {
  libdw::Die die{};
  libdw::Die within = *parent;
  for (int depth = 0; depth < kMostScopes; ++depth) {
    if (dw_.dwarf_child(&within, &die) != 0) return;
    bool is_found = false;
    do {
      const int tag = dw_.dwarf_tag(&die);
      if (tag != libdw::kInlinedFunction && tag != libdw::kLexicalBlock) continue;
      if (dw_.dwarf_haspc(&die, address) <= 0) continue;
      if (tag == libdw::kInlinedFunction) inlined.push_back(die);
      within = die;
      is_found = true;
      break;
    } while (dw_.dwarf_siblingof(&die, &die) == 0);
    if (!is_found) return;
  }
}

std::string DebugLines::text_of(libdw::Die& die, unsigned wanted) const {
  libdw::Attribute attribute{};
  if (dw_.dwarf_attr_integrate(&die, wanted, &attribute) == nullptr) return {};
  return short_text(dw_.dwarf_formstring(&attribute));
}

std::string DebugLines::linkage_name(libdw::Die& die) const {
  std::string name = text_of(die, libdw::kLinkageName);
  return name.empty() ? text_of(die, libdw::kOldLinkageName) : name;
}

std::string DebugLines::name_of(libdw::Die& die) const {
  if (std::string linkage = linkage_name(die); !linkage.empty()) return linkage;
  return short_text(dw_.dwarf_diename(&die));
}

SourceFrame DebugLines::call_of(libdw::Die& inlined, Unit& unit) const {
  SourceFrame call;
  const auto number = [&](unsigned wanted) {
    libdw::Attribute attribute{};
    std::uint64_t value = 0;
    if (dw_.dwarf_attr(&inlined, wanted, &attribute) == nullptr ||
        dw_.dwarf_formudata(&attribute, &value) != 0)
      return std::uint64_t{0};
    return value;
  };
  call.line = static_cast<std::uint32_t>(number(libdw::kCallLine));
  libdw::Files* files = nullptr;
  std::size_t count = 0;
  const std::uint64_t file = number(libdw::kCallFile);
  if (dw_.dwarf_getsrcfiles(&unit.die, &files, &count) != 0 || file >= count) return call;
  const char* path = dw_.dwarf_filesrc(files, static_cast<std::size_t>(file), nullptr, nullptr);
  if (path != nullptr) call.file = whole_path(unit, path);
  return call;
}

}  // namespace gpumemprof
