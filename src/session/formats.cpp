#include "session/formats.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/byte_source.h"
#include "base/bytes.h"
#include "ingest/foreign/chrome_trace.h"
#include "ingest/foreign/foreign_input.h"
#include "ingest/foreign/jax_profile.h"
#include "ingest/torch_snapshot.h"
#include "report/folded/folded.h"
#include "report/torch_snapshot/torch_snapshot.h"
#include "session/exports/exports.h"
#include "session/gmp_file.h"
#include "session/recording.h"
#include "trace/chapters/chapter_source.h"
#include "trace/reader.h"

namespace gpumemprof {
namespace {

template <typename Reader>
Result<std::unique_ptr<EventSource>> open_with(const std::string& path, const OpenOptions& options,
                                               std::uint64_t least_memory_limit_bytes) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(path, options.progress);
  if (!reader) return reader.error();
  reader.value()->allow_memory(least_memory_limit_bytes);
  return std::unique_ptr<EventSource>(std::move(reader).value());
}

Status write_gmp(const Recording& recording, const std::string& path, FileSink::Existing existing) {
  return write_gmp_file(recording.store(), path, existing);
}

Status write_snapshot(const Recording& recording, const std::string& path,
                      FileSink::Existing existing) {
  return write_torch_snapshot(recording.store(), path, existing);
}

Status write_folded(const Recording& recording, const std::string& path,
                    FileSink::Existing existing) {
  const Result<Overview> overview = recording.overview();
  if (!overview) return overview.error();
  return write_folded_stacks(overview.value(), recording.store(), path, existing);
}

template <Format::WriteRun kWrite>
Status write_all_of(const Recording& recording, const std::string& path,
                    FileSink::Existing existing) {
  // The caller owns it.
  const std::shared_ptr<const Recording> borrowed(std::shared_ptr<const Recording>(), &recording);
  return kWrite(*TabledRun::of(borrowed), {}, path, existing);
}

// The first one also opens files that no format recognises: old snapshots have no magic number, and
// its reader says what a file is instead.
constexpr Format kFormats[] = {
    {"torch-snapshot", ".pickle", looks_like_snapshot, open_with<TorchSnapshot>, write_snapshot,
     "drop it onto https://pytorch.org/memory_viz"},
    {"gmp", ".gmp", looks_like_trace, open_with<TraceReader>, write_gmp, {}, true},
    {"folded", ".folded", nullptr, nullptr, write_folded,
     "draw it with flamegraph.pl, or open it at https://www.speedscope.app", false,
     write_folded_stacks},
    {"pprof", ".pb.gz", nullptr, nullptr, write_all_of<write_pprof>,
     "look at it with go tool pprof", false, nullptr, write_pprof, true},
    {"speedscope", ".speedscope.json", nullptr, nullptr, write_all_of<write_speedscope>,
     "drop it onto https://www.speedscope.app", false, nullptr, write_speedscope, true},
    {"perfetto", ".pftrace", nullptr, nullptr, write_all_of<write_perfetto>,
     "open it at https://ui.perfetto.dev", false, nullptr, write_perfetto, false, true},
    {"csv", ".csv", nullptr, nullptr, write_all_of<write_csv>,
     "read it with any tool for tables: the first line of each file names its columns", false,
     nullptr, write_csv, false, false, true},
    {"profiler-trace", ".json", looks_like_json, open_with<ChromeTrace>},
    {"jax-profile", ".prof", looks_like_pprof, open_with<JaxProfile>},
};

}  // namespace

Result<std::uint64_t> allowed_memory() {
  const char* text = std::getenv("GPUMEMPROF_MAX_MEMORY");
  if (text == nullptr || text[0] == '\0') return std::uint64_t{0};
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (bytes) return *bytes;
  return Error{ErrorCode::usage,
               "GPUMEMPROF_MAX_MEMORY takes a size such as 8GiB, not '" + std::string(text) + "'",
               "", "try GPUMEMPROF_MAX_MEMORY=8GiB"};
}

std::span<const Format> formats() { return kFormats; }

const Format* find_format(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &Format::name);
  return found == std::end(kFormats) ? nullptr : found;
}

std::string writable_formats(std::span<const std::string_view> more) {
  std::vector<std::string_view> names;
  for (const Format& format : kFormats) {
    if (format.write != nullptr) names.push_back(format.name);
  }
  names.insert(names.end(), more.begin(), more.end());
  std::string text(names.front());
  for (std::size_t index = 1; index < names.size(); ++index)
    text.append(index + 1 == names.size() ? " or " : ", ").append(names[index]);
  return text;
}

Result<std::unique_ptr<EventSource>> open_source(const std::string& path,
                                                 const OpenOptions& options) {
  const Result<std::uint64_t> allowed = allowed_memory();
  if (!allowed) return allowed.error();
  if (options.chapters != nullptr) {
    std::unique_ptr<ChapterSource> source = ChapterSource::of(options.chapters, options.progress);
    source->allow_memory(allowed.value());
    return std::unique_ptr<EventSource>(std::move(source));
  }
  if (is_folder(path)) return open_with<ChapterSource>(path, options, allowed.value());
  // Bytes read from a pipe are gone; only snapshots are read from pipes. What a gzipped file is
  // follows from what is in it.
  constexpr std::size_t kFirstBytes = 64;
  FirstBytes first;
  if (std::error_code ignored; std::filesystem::is_regular_file(path, ignored)) {
    Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
    if (!file) return file.error();
    first = first_bytes_inside(*file.value(), kFirstBytes);
  }
  const auto* const format = std::ranges::find_if(kFormats, [&](const Format& one) {
    // No reader of ours unzips a .gmp file.
    const bool is_read =
        one.sniff != nullptr && !(first.is_zipped && one.sniff == looks_like_trace);
    return is_read && one.sniff(first.bytes);
  });
  // What a reader of snapshots would say about a recording of ours would mislead.
  if (first.is_zipped && looks_like_trace(first.bytes))
    return Error{ErrorCode::bad_input, "this is a zipped recording", path,
                 "unzip it first: gunzip < FILE > run.gmp"};
  if (format == std::end(kFormats) && !first.bytes.empty() && !first.is_zipped &&
      path.ends_with(".gmp"))
    return Error{ErrorCode::bad_input, "this is not a recording: it does not begin like one", path,
                 "name a file that gpumemprof run wrote, or copy it again if it was damaged"};
  const Format& chosen = format == std::end(kFormats) ? kFormats[0] : *format;
  return chosen.open(path, options, allowed.value());
}

}  // namespace gpumemprof
