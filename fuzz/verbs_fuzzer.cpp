// Small recordings with changes that a reader does not reject, given to every verb and every
// analysis: nothing may crash, throw, break an invariant or exhaust memory.
//
// The input selects a seed from fuzz/seeds and what happens to it: changes to the objects of a
// snapshot, to the content of a .gmp file (written again by the real writer), or to the bytes of
// its blocks beneath their checksums. Of an input that begins with a byte of 160 or more, it is
// read as long recordings are: in small windows, as a folder of chapters or through an index that
// is changed as well, or it is the summary of a rank. How many inputs were of each kind is printed
// at the end.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "index/run_index.h"
#include "long/chapter_mutation.h"
#include "long/idle_device.h"
#include "long/index_mutation.h"
#include "long/long_verbs.h"
#include "long/summary_mutation.h"
#include "session/ranks/rank_summary.h"
#include "store/store_source.h"
#include "trace/chapters/chapter_folder.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include "verbs/choices.h"
#include "verbs/every_verb.h"
#include "verbs/heap_bound.h"
#include "verbs/python_value.h"
#include "verbs/snapshot_mutation.h"
#include "verbs/trace_mutation.h"

namespace {

using gpumemprof::Store;
using gpumemprof::StoreSource;
using gpumemprof::TraceOptions;
using gpumemprof::TraceReader;
using gpumemprof::TraceWriter;
using gpumemprof::fuzz::Choices;
using gpumemprof::fuzz::HeapBound;
using gpumemprof::fuzz::PythonValue;
using Bytes = std::vector<std::uint8_t>;

// What all verbs together may use for a file, beyond a multiple of its size.
constexpr std::size_t kBaseBytes = std::size_t{256} << 20;
constexpr std::size_t kBytesPerFileByte = 2048;

void give_up(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

struct Seeds {
  std::vector<PythonValue> snapshots;
  std::vector<Bytes> traces;
};

Seeds read_seeds() {
  Seeds seeds;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(GPUMEMPROF_FUZZ_SEEDS))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const Bytes bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (path.extension() == ".gmp") {
      seeds.traces.push_back(bytes);
    } else if (path.extension() == ".pickle") {
      seeds.snapshots.push_back(gpumemprof::fuzz::read_pickle(bytes));
    }
  }
  if (seeds.snapshots.empty() || seeds.traces.empty()) give_up("no seeds");
  return seeds;
}

// Removed when the process exits normally.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "verbs_fuzzer_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) give_up("no folder to write in");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write_file(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write_changed_snapshot(const Seeds& seeds, const std::string& path, Choices& choices) {
  PythonValue snapshot = seeds.snapshots[choices.below(seeds.snapshots.size())];
  gpumemprof::fuzz::mutate_snapshot(snapshot, choices);
  write_file(path, gpumemprof::fuzz::write_pickle(snapshot));
}

void read_seed(const Seeds& seeds, Store& store, Choices& choices) {
  const Bytes& seed = seeds.traces[choices.below(seeds.traces.size())];
  const auto reader = TraceReader::from_bytes(std::as_bytes(std::span(seed)), "seed");
  if (!reader || !reader.value()->deliver(store)) give_up("a seed that cannot be read");
}

void write_trace(const Store& store, const std::string& path, Choices& choices) {
  TraceOptions options;
  options.existing = gpumemprof::FileSink::Existing::replace;
  options.events_per_block = 64 + choices.below(1024);
  options.compression_level = choices.one_in(2) ? 1 : 0;
  const auto writer = TraceWriter::open(path, store.origin(), store.settings(), options);
  if (!writer) give_up("no file to write");
  (void)StoreSource(store).deliver(*writer.value());
  if (!choices.one_in(4)) (void)writer.value()->close("exit 0");
}

void write_changed_trace(const Seeds& seeds, const std::string& path, Choices& choices) {
  Store store;
  read_seed(seeds, store, choices);
  gpumemprof::fuzz::mutate_store(store, choices);
  write_trace(store, path, choices);
}

void write_changed_blocks(const Seeds& seeds, const std::string& path, Choices& choices) {
  write_file(path, gpumemprof::fuzz::mutate_blocks(seeds.traces[choices.below(seeds.traces.size())],
                                                   choices));
}

// Only a run whose start is known, and whose end is not listed, is read in windows.
void read_long_seed(const Seeds& seeds, Store& store, Choices& choices) {
  read_seed(seeds, store, choices);
  gpumemprof::Origin origin = store.origin();
  origin.has_start = !choices.one_in(16);
  origin.has_segments = choices.one_in(16);
  store.set_origin(origin);
}

// As the recorder may leave it, and as others may send it.
void write_any_trace(const Seeds& seeds, const std::string& path, Choices& choices) {
  if (choices.one_in(5)) return write_changed_blocks(seeds, path, choices);
  Store store;
  read_long_seed(seeds, store, choices);
  if (choices.one_in(2)) gpumemprof::fuzz::add_idle_device(store, choices);
  if (!choices.one_in(4)) gpumemprof::fuzz::mutate_store(store, choices);
  write_trace(store, path, choices);
  if (choices.one_in(8))
    std::filesystem::resize_file(path, choices.below(std::filesystem::file_size(path) + 1));
}

void write_any_chapters(const Seeds& seeds, const std::string& folder, Choices& choices) {
  Store store;
  read_long_seed(seeds, store, choices);
  if (choices.one_in(4)) gpumemprof::fuzz::add_idle_device(store, choices);
  if (choices.one_in(3)) gpumemprof::fuzz::mutate_store(store, choices);
  gpumemprof::fuzz::write_changed_chapters(store, folder, seeds.traces, choices);
}

std::size_t recording_size(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  std::size_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  return bytes;
}

void check_memory(const HeapBound& heap, std::size_t file_bytes) {
  const std::size_t allowed = kBaseBytes + kBytesPerFileByte * file_bytes;
  if (heap.most_bytes() <= allowed) return;
  std::fprintf(stderr, "broken promise: %zu bytes of memory, allowed are %zu\n", heap.most_bytes(),
               allowed);
  std::abort();
}

// Printed when the process exits normally.
struct Counts {
  std::size_t small = 0;
  std::size_t windows = 0;
  std::size_t chapters = 0;
  std::size_t indexes = 0;
  std::size_t indexes_read = 0;  // the rest is refused, and made again
  std::size_t summaries = 0;

  Counts() = default;
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;
  ~Counts() {
    std::printf(
        "%zu small recordings, %zu in windows, %zu folders of chapters, %zu indexes (%zu were "
        "read), %zu summaries of ranks\n",
        small, windows, chapters, indexes, indexes_read, summaries);
  }
};

Counts& counts() {
  static Counts made;
  return made;
}

// Recordings of any size are then read in windows of so many events.
class ForcedWindows {
 public:
  explicit ForcedWindows(std::size_t events) {
    ::setenv("GPUMEMPROF_WINDOW_EVENTS", std::to_string(events).c_str(), 1);
  }
  ForcedWindows(const ForcedWindows&) = delete;
  ForcedWindows& operator=(const ForcedWindows&) = delete;
  ~ForcedWindows() { ::unsetenv("GPUMEMPROF_WINDOW_EVENTS"); }
};

void try_in_windows(const std::string& path, const Folder& folder, Choices& choices) {
  const HeapBound heap;
  {
    std::optional<ForcedWindows> windows;
    if (!choices.one_in(8)) windows.emplace(1 + choices.below(choices.one_in(3) ? 8 : 300));
    gpumemprof::fuzz::try_every_verb_in_windows(path, folder.path(), choices);
  }
  check_memory(heap, recording_size(path));
}

// What an index is made beside; returns its size, without what makes it long.
std::size_t write_long_recording(const Seeds& seeds, const std::string& path, Choices& choices) {
  const bool is_folder = choices.one_in(3);
  is_folder ? write_any_chapters(seeds, path, choices) : write_any_trace(seeds, path, choices);
  const std::size_t bytes = recording_size(path);
  if (is_folder) {
    // Changes may have left none.
    const auto chapters = gpumemprof::list_chapters(path);
    if (chapters) gpumemprof::fuzz::make_long(chapters.value().front().path);
  } else {
    gpumemprof::fuzz::make_long(path);
    // One that is still written is copied before it is viewed.
    if (!choices.one_in(6)) {
      std::filesystem::last_write_time(
          path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    }
  }
  return bytes;
}

void try_with_index(const Seeds& seeds, const Folder& folder, Choices& choices) {
  const std::string path = folder.path() + "/indexed.gmp";
  const std::string other = folder.path() + "/other.gmp";
  const std::string index = gpumemprof::index_path(path);
  std::filesystem::remove_all(path);
  std::filesystem::remove(index);
  const std::size_t bytes = write_long_recording(seeds, path, choices);
  const bool is_of_other = choices.one_in(3);
  if (is_of_other) write_any_trace(seeds, other, choices);
  gpumemprof::fuzz::write_changed_index(is_of_other ? other : path, path, choices);
  const std::size_t index_bytes =
      std::filesystem::exists(index) ? std::filesystem::file_size(index) : 0;
  auto state = gpumemprof::IndexState::missing;
  if (gpumemprof::RunIndex::open(path, state) != nullptr) ++counts().indexes_read;
  const HeapBound heap;
  gpumemprof::fuzz::try_every_verb_in_windows(path, folder.path(), choices);
  check_memory(heap, bytes + index_bytes);
}

std::vector<std::string> summaries_of(const Seeds& seeds, const Folder& folder) {
  std::vector<std::string> summaries;
  for (const Bytes& seed : seeds.traces) {
    const std::string path = folder.path() + "/rank.gmp";
    write_file(path, seed);
    const auto summary = gpumemprof::rank_summary(path);
    if (!summary) give_up("a seed without a summary");
    summaries.push_back(summary.value());
  }
  return summaries;
}

void try_long(const Seeds& seeds, const Folder& folder, Choices& choices) {
  const std::string path = folder.path() + "/long.gmp";
  switch (choices.below(4)) {
    case 0:
      ++counts().windows;
      std::filesystem::remove_all(path);
      write_any_trace(seeds, path, choices);
      return try_in_windows(path, folder, choices);
    case 1:
      ++counts().chapters;
      write_any_chapters(seeds, path, choices);
      return try_in_windows(path, folder, choices);
    case 2:
      ++counts().indexes;
      return try_with_index(seeds, folder, choices);
    default: {
      ++counts().summaries;
      static const std::vector<std::string> kSummaries = summaries_of(seeds, folder);
      const std::string& summary = kSummaries[choices.below(kSummaries.size())];
      const HeapBound heap;
      gpumemprof::fuzz::try_changed_summary(summary, folder.path() + "/rank.gmp.summary.jsonl",
                                            choices);
      check_memory(heap, summary.size());
    }
  }
}

void try_small(const Seeds& seeds, const Folder& folder, Choices& choices) {
  const std::string path = folder.path() + "/input";
  ++counts().small;
  switch (choices.below(5)) {
    case 0:
    case 1:
      write_changed_snapshot(seeds, path, choices);
      break;
    case 2:
      write_changed_blocks(seeds, path, choices);
      break;
    default:
      write_changed_trace(seeds, path, choices);
  }
  const HeapBound heap;
  gpumemprof::fuzz::try_every_verb(path, folder.path(), choices);
  check_memory(heap, recording_size(path));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Seeds kSeeds = read_seeds();
  static const Folder kFolder;
  constexpr std::uint8_t kFirstOfLong = 160;
  Choices choices({data, size});
  if (size > 0 && data[0] >= kFirstOfLong) {
    try_long(kSeeds, kFolder, choices);
  } else {
    try_small(kSeeds, kFolder, choices);
  }
  return 0;
}
