// An index that anyone may have changed: it must be refused or read, and whatever it says, no
// report, timeline or excerpt made of it may crash or exhaust memory.
//
// The index of one small recording is made at the start. The first byte of the input selects what
// the rest is: the bytes of an index, or changes to the content of that one's blocks, which get
// valid checksums again. A change is: block (2 bytes), place in it (2 bytes), the new byte.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "index/index_maker.h"
#include "index/run_index.h"
#include "report/json/overview_json.h"
#include "report/text/overview/overview_text.h"
#include "session/excerpt/indexed_part.h"
#include "session/recording.h"
#include "trace/block.h"
#include "trace/reader.h"
#include "windows/windowed_run.h"

namespace {

using namespace gpumemprof;
using Bytes = std::vector<std::uint8_t>;

void stop_fuzzing(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

Bytes bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void write_bytes(const std::string& path, std::span<const std::uint8_t> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

struct IndexedBlock {
  std::size_t offset = 0;  // of its header in the file
  Bytes content;
};

// The recording, its index as it was made, and the content of the index's blocks.
struct Base {
  std::string recording;
  Bytes index;
  std::vector<IndexedBlock> blocks;
};

void make_index(const std::string& path) {
  std::unique_ptr<IndexMaker> maker;
  WindowedRun windowed(
      path,
      [&](EventSink& sink) -> Status {
        Result<std::unique_ptr<TraceReader>> reader = TraceReader::open(path);
        if (!reader) return reader.error();
        return maker ? maker->deliver(*reader.value(), sink) : reader.value()->deliver(sink);
      },
      WindowSizes{64});
  if (!windowed.survey()) stop_fuzzing("the seed cannot be surveyed");
  IndexOptions options;
  options.checkpoint_events = 50;
  options.compression_level = 0;
  Result<std::unique_ptr<IndexMaker>> made = IndexMaker::create(path, options);
  if (!made) stop_fuzzing("no index can be written");
  maker = std::move(made).value();
  Result<Overview> overview = windowed.overview({}, maker.get());
  if (!overview || !maker->finish(windowed.store(), overview.value(), windowed.at_end()))
    stop_fuzzing("the index was not written");
}

Base make_base() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("index_fuzzer." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  Base base;
  base.recording = (folder / "run.gmp").string();
  std::filesystem::copy_file(std::string(GPUMEMPROF_FUZZ_SEEDS) + "/training.gmp", base.recording,
                             std::filesystem::copy_options::overwrite_existing);
  make_index(base.recording);
  base.index = bytes_of(index_path(base.recording));
  constexpr std::size_t kMagicBytes = 8;
  BufferSource source(std::as_bytes(std::span(base.index).subspan(kMagicBytes)));
  trace::BlockReader reader(source);
  reader.go_on_at({kMagicBytes, 0});
  trace::Block block;
  while (reader.next(block) == trace::BlockReader::Outcome::block)
    base.blocks.push_back({block.byte_offset, Bytes(block.content.begin(), block.content.end())});
  if (base.blocks.size() < 8) stop_fuzzing("the index has too few blocks");
  return base;
}

Bytes changed(const Base& base, std::span<const std::uint8_t> changes) {
  Bytes index = base.index;
  std::vector<IndexedBlock> blocks = base.blocks;
  for (; changes.size() >= 5; changes = changes.subspan(5)) {
    const auto number_at = [&](std::size_t at) {
      return static_cast<std::size_t>(changes[at]) | static_cast<std::size_t>(changes[at + 1])
                                                         << 8U;
    };
    IndexedBlock& block = blocks[number_at(0) % blocks.size()];
    if (block.content.empty()) continue;
    block.content[number_at(2) % block.content.size()] = changes[4];
  }
  trace::BlockPacker packer(0);
  for (std::size_t number = 0; number < blocks.size(); ++number) {
    trace::OutBytes packed;
    packer.set_next_number(static_cast<std::uint32_t>(number));
    packer.pack(static_cast<trace::BlockKind>(0xC0), blocks[number].content, packed);
    std::copy(packed.span().begin(), packed.span().end(),
              index.begin() + static_cast<std::ptrdiff_t>(blocks[number].offset));
  }
  return index;
}

void read_excerpts(const RunIndex& index, DeviceIndex device) {
  const std::vector<std::uint32_t>& checkpoints = index.checkpoints(device);
  for (std::size_t row = 0; row + 1 < checkpoints.size(); ++row) {
    Result<std::unique_ptr<ExcerptSource>> source =
        index.excerpt(device, checkpoints[row], checkpoints[row + 1]);
    if (!source) continue;
    const auto read = Recording::from_excerpt(*source.value(), "excerpt", [&] {
      return std::vector{known_part(source.value()->excerpt(), checkpoints.back(), 0)};
    });
    if (!read || read.value()->store().devices().empty()) continue;
    const Result<Overview> overview = read.value()->overview();
    if (overview) (void)overview_json(overview.value(), read.value()->store(), kAllGroups);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Base kBase = make_base();
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  const std::string path = index_path(kBase.recording);
  if (data[0] % 8 == 0) {
    write_bytes(path, rest);
  } else {
    write_bytes(path, changed(kBase, rest));
  }
  IndexState state = IndexState::missing;
  const std::unique_ptr<RunIndex> index = RunIndex::open(kBase.recording, state);
  if (index == nullptr) return 0;
  const Overview at_end = overview_at_end(index->at_peak(), index->at_end());
  for (const Overview* overview : {&index->at_peak(), &at_end}) {
    (void)overview_json(*overview, index->store(), kAllGroups);
    TextStyle style;
    style.shows_modules = true;
    style.shows_steps = true;
    (void)overview_text(*overview, index->store(), style);
  }
  for (const DeviceIndex device : index->devices()) {
    (void)index->pyramid(device);
    (void)index->spans(device);
    (void)index->failures(device);
    for (std::size_t number = 0; number < index->checkpoints(device).size(); ++number)
      (void)index->checkpoint(device, number);
    read_excerpts(*index, device);
  }
  return 0;
}
