// The file formats that recordings are read from and written to, in one table: a new format is a
// folder of its own and one entry here.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file_sink.h"
#include "base/result.h"
#include "event/event_sink.h"

namespace gpumemprof {

class HeldChapters;
class Recording;
class Store;
class TabledRun;
struct ExportOptions;
struct Overview;

// What any file may need to be opened, as the user allows it; 0: what files of its size do.
Result<std::uint64_t> allowed_memory();

struct OpenOptions {
  // Called occasionally with the bytes read so far and the total.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
  // Of a folder that is read more than once: these chapters of it.
  std::shared_ptr<HeldChapters> chapters = nullptr;
};

struct Format {
  using Sniff = bool (*)(std::span<const std::byte> first_bytes);
  // `least_memory_limit_bytes`: raises what a file of its size may use.
  using Open = Result<std::unique_ptr<EventSource>> (*)(const std::string& path,
                                                        const OpenOptions& options,
                                                        std::uint64_t least_memory_limit_bytes);
  // The file appears under its name only when it is complete; an existing file stays until then.
  using Write = Status (*)(const Recording& recording, const std::string& path,
                           FileSink::Existing existing);

  std::string_view name;    // what `convert --to` takes
  std::string_view suffix;  // that its files usually have
  // Neither of the two: it cannot be read.
  Sniff sniff = nullptr;
  Open open = nullptr;
  Write write = nullptr;
  std::string_view viewer = {};  // what else shows it: "drop it onto https://…"
  // How a recording too long for memory is written: block by block as it is read, ...
  bool is_streamed = false;
  // ... or from its report. Neither: only a part of it, or all of it in memory.
  using WriteOverview = Status (*)(const Overview& overview, const Store& store,
                                   const std::string& path, FileSink::Existing existing);
  WriteOverview write_overview = nullptr;
  // ... or window by window, in both cases.
  using WriteRun = Status (*)(TabledRun& run, const ExportOptions& options, const std::string& path,
                              FileSink::Existing existing);
  WriteRun write_run = nullptr;
  // Shows one moment, which can be chosen.
  bool has_moment = false;
  // Has times, which can be those of another trace.
  bool has_clock = false;
  // Consists of tables, of which one can be chosen.
  bool has_tables = false;
};

std::span<const Format> formats();
// Null: there is none of this name.
const Format* find_format(std::string_view name);
// "torch-snapshot or gmp": the formats that can be written, and those that others write.
std::string writable_formats(std::span<const std::string_view> more = {});

// A file's format follows from its first bytes, not from its name.
Result<std::unique_ptr<EventSource>> open_source(const std::string& path,
                                                 const OpenOptions& options);

}  // namespace gpumemprof
