#include "long/index_mutation.h"

#include <filesystem>
#include <fstream>

#include "index/index_maker.h"
#include "index/run_index.h"
#include "long/changed_fields.h"
#include "trace/chapters/chapter_source.h"
#include "trace/reader.h"
#include "verbs/trace_mutation.h"
#include "windows/windowed_run.h"

namespace gpumemprof::fuzz {
namespace {

// A little more than what is long.
constexpr std::size_t kSkippedBytes = (std::size_t{8} << 20U) + 4096;
// Readers skip blocks of kinds that they do not know, from this on.
constexpr auto kSkippedKind = static_cast<trace::BlockKind>(0xB0);

Result<std::unique_ptr<PlacedSource>> open_placed(const std::string& path) {
  if (is_folder(path)) {
    Result<std::unique_ptr<ChapterSource>> chapters = ChapterSource::open(path);
    if (!chapters) return chapters.error();
    return std::unique_ptr<PlacedSource>(std::move(chapters).value());
  }
  Result<std::unique_ptr<TraceReader>> reader = TraceReader::open(path);
  if (!reader) return reader.error();
  return std::unique_ptr<PlacedSource>(std::move(reader).value());
}

bool make_index(const std::string& path, const Identity& identity, Choices& choices) {
  std::unique_ptr<IndexMaker> maker;
  WindowedRun windowed(
      path,
      [&](EventSink& sink) -> Status {
        const Result<std::unique_ptr<PlacedSource>> source = open_placed(path);
        if (!source) return source.error();
        return maker ? maker->deliver(*source.value(), sink) : source.value()->deliver(sink);
      },
      WindowSizes{static_cast<std::uint32_t>(16 + choices.below(200))});
  const Result<bool> surveyed = windowed.survey();
  if (!surveyed || !surveyed.value()) return false;
  IndexOptions options;
  options.checkpoint_events = 20 + choices.below(100);
  options.compression_level = 0;
  options.identity = identity;
  Result<std::unique_ptr<IndexMaker>> made = IndexMaker::create(path, options);
  if (!made) return false;
  maker = std::move(made).value();
  Result<Overview> overview = windowed.overview({}, maker.get());
  return overview && maker->finish(windowed.store(), overview.value(), windowed.at_end()).ok();
}

// Reads every part of an index and writes it again, with some fields changed.
class ChangedIndex {
 public:
  ChangedIndex(IndexFile& from, IndexFileWriter& to, Choices& choices)
      : from_(from), to_(to), choices_(choices) {
    // Of some thousand fields.
    chances_ = std::uint64_t{32} << choices_.below(8);
  }

  void run(const Identity& identity) {
    IndexDirectory directory = from_.directory();
    if (choices_.one_in(8)) change(directory);
    directory.identity = identity;
    copy<IndexedNames>(directory.names);
    copy<IndexedDefinitions>(directory.definitions);
    for (IndexedRows& rows : directory.rows) copy<trace::DefinedRows>(rows.rows);
    copy<IndexedOverviews>(directory.overviews);
    for (PartPlace& place : directory.label_blocks) copy<std::vector<LabelBlock>>(place);
    for (IndexedDevice& device : directory.devices) {
      for (PartPlace& place : device.states) copy<StoredCheckpoint>(place);
      for (PartPlace& place : device.spans) copy<StoredSpans>(place);
      for (PartPlace& place : device.buckets) copy<std::vector<PyramidBucket>>(place);
      copy<std::vector<OverlayOom>>(device.failures);
    }
    if (choices_.one_in(8)) change(directory.devices);
    (void)to_.close(directory);
  }

 private:
  template <typename T>
  void change(T& value) {
    ChangedFields(choices_, chances_).put(value);
  }
  template <typename T>
  void copy(PartPlace& place) {
    std::optional<T> value = from_.read<T>(place);
    if (!value) return;  // its place was changed
    if (choices_.one_in(3)) change(*value);
    place = to_.write(*value);
  }

  IndexFile& from_;
  IndexFileWriter& to_;
  Choices& choices_;
  std::uint64_t chances_ = 0;
};

void change_index(const std::string& path, const Identity& identity, Choices& choices) {
  const std::unique_ptr<IndexFile> from = IndexFile::open(path, identity);
  if (from == nullptr) return;
  Result<std::unique_ptr<IndexFileWriter>> to = IndexFileWriter::create(path, 0);
  if (to) ChangedIndex(*from, *to.value(), choices).run(identity);
}

}  // namespace

void make_long(const std::string& file) {
  static const std::vector<std::uint8_t> kSkipped(kSkippedBytes);
  std::ifstream in(file, std::ios::binary);
  const FileBytes bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<PlainBlock> blocks = blocks_of(bytes);
  // Nothing is read behind the end.
  const auto end = blocks.empty() || blocks.back().kind != trace::BlockKind::end ? blocks.end()
                                                                                 : blocks.end() - 1;
  blocks.insert(end, {kSkippedKind, kSkipped});
  const FileBytes longer = file_of(bytes, blocks, 0);
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(longer.data()),
             static_cast<std::streamsize>(longer.size()));
}

void write_changed_index(const std::string& indexed, const std::string& recording,
                         Choices& choices) {
  const Result<Identity> identity = identity_of(recording);
  if (!identity || !make_index(indexed, identity.value(), choices)) return;
  const std::string path = index_path(recording);
  if (indexed != recording) std::filesystem::rename(index_path(indexed), path);
  if (!choices.one_in(6)) change_index(path, identity.value(), choices);
}

}  // namespace gpumemprof::fuzz
