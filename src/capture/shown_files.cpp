#include "capture/shown_files.h"

#include <atomic>
#include <utility>

namespace gpumemprof::capture {
namespace {

struct ShownFile {
  std::string file;
  std::string name;
  const ShownFile* older = nullptr;
};

// Never freed: a handful of names of a process.
std::atomic<const ShownFile*> g_shown_files{nullptr};

}  // namespace

void show_file_as(std::string file, std::string name) {
  auto* shown = new ShownFile{std::move(file), std::move(name), g_shown_files.load()};
  while (!g_shown_files.compare_exchange_weak(shown->older, shown)) {
  }
}

std::string_view shown_file(std::string_view file) {
  for (const ShownFile* shown = g_shown_files.load(); shown != nullptr; shown = shown->older) {
    if (shown->file == file) return shown->name;
  }
  return file;
}

}  // namespace gpumemprof::capture
