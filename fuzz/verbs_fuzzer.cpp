// Small recordings with changes that a reader does not reject, given to every verb and every
// analysis: nothing may crash, throw, break an invariant or exhaust memory.
//
// The input selects a seed from fuzz/seeds and what happens to it: changes to the objects of a
// snapshot, to the content of a .gmp file (written again by the real writer), or to the bytes of
// its blocks beneath their checksums.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "store/store_source.h"
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

void write_changed_trace(const Seeds& seeds, const std::string& path, Choices& choices) {
  const Bytes& seed = seeds.traces[choices.below(seeds.traces.size())];
  Store store;
  const auto reader = TraceReader::from_bytes(std::as_bytes(std::span(seed)), "seed");
  if (!reader || !reader.value()->deliver(store)) give_up("a seed that cannot be read");
  gpumemprof::fuzz::mutate_store(store, choices);
  TraceOptions options;
  options.existing = gpumemprof::FileSink::Existing::replace;
  options.events_per_block = 64 + choices.below(1024);
  options.compression_level = choices.one_in(2) ? 1 : 0;
  const auto writer = TraceWriter::open(path, store.origin(), store.settings(), options);
  if (!writer) give_up("no file to write");
  (void)StoreSource(store).deliver(*writer.value());
  if (!choices.one_in(4)) (void)writer.value()->close("exit 0");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Seeds kSeeds = read_seeds();
  static const Folder kFolder;
  const std::string path = kFolder.path() + "/input";
  Choices choices({data, size});
  switch (choices.below(5)) {
    case 0:
    case 1:
      write_changed_snapshot(kSeeds, path, choices);
      break;
    case 2:
      write_file(path, gpumemprof::fuzz::mutate_blocks(
                           kSeeds.traces[choices.below(kSeeds.traces.size())], choices));
      break;
    default:
      write_changed_trace(kSeeds, path, choices);
  }
  const HeapBound heap;
  gpumemprof::fuzz::try_every_verb(path, kFolder.path(), choices);
  const std::size_t allowed = kBaseBytes + kBytesPerFileByte * std::filesystem::file_size(path);
  if (heap.most_bytes() > allowed) {
    std::fprintf(stderr, "broken promise: %zu bytes of memory, allowed are %zu\n",
                 heap.most_bytes(), allowed);
    std::abort();
  }
  return 0;
}
