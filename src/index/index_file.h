// IndexFile: the file of an index. It has blocks like those of a recording, each with a checksum,
// and ends with the place of the last one, the directory, which says where the others are.
//
//   magic (8 bytes) | block | block | … | directory | place of the directory | magic
//
// A part is one value, in one block or several.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/overview/overview.h"
#include "base/byte_source.h"
#include "base/file_sink.h"
#include "index/identity.h"
#include "index/stored_checkpoint.h"
#include "trace/block.h"

namespace gpumemprof {

using PartPlace = std::vector<trace::BlockPlace>;

struct IndexedDevice {
  DeviceIndex device = 0;
  std::uint64_t events = 0;
  std::vector<std::uint32_t> checkpoints;  // the first event after each
  std::vector<PartPlace> states;           // of each checkpoint: a StoredCheckpoint
  std::vector<PartPlace> spans;            // StoredSpans of the events before each checkpoint
  std::vector<PartPlace> buckets;          // of the pyramid, in order: some of them each
  std::uint64_t bucket_count = 0;
  PartPlace failures;  // OverlayOoms
};

// Of one file of the recording.
struct IndexedRows {
  std::uint32_t chapter = 0;  // 0: the recording is one file
  PartPlace rows;             // DefinedRows
};

struct IndexDirectory {
  Identity identity;
  PartPlace names;
  PartPlace definitions;
  std::vector<IndexedRows> rows;  // in order of chapter
  PartPlace overviews;
  std::vector<RecordingPlace> checkpoints;  // where the recording can be opened; the end is last
  std::vector<PartPlace> label_blocks;      // LabelBlocks, in order: some of them each
  std::vector<IndexedDevice> devices;
  [[nodiscard]] bool is_of_chapters() const { return rows.size() != 1 || rows[0].chapter != 0; }
};

struct IndexedOverviews {
  Overview at_peak;
  Overview at_end;
};

template <typename Archive>
void fields(Archive& archive, Identity& x) {
  archive.all(x, x.size_bytes, x.content_checksum, x.maker_checksum);
}
template <typename Archive>
void fields(Archive& archive, IndexedDevice& x) {
  archive.all(x, x.device, x.events, x.checkpoints, x.states, x.spans, x.buckets, x.bucket_count,
              x.failures);
}
template <typename Archive>
void fields(Archive& archive, IndexedRows& x) {
  archive.all(x, x.chapter, x.rows);
}
template <typename Archive>
void fields(Archive& archive, IndexDirectory& x) {
  archive.all(x, x.identity, x.names, x.definitions, x.rows, x.overviews, x.checkpoints,
              x.label_blocks, x.devices);
}
template <typename Archive>
void fields(Archive& archive, IndexedOverviews& x) {
  archive.all(x, x.at_peak, x.at_end);
}

IndexedNames indexed_names(const Store& store);
IndexedDefinitions indexed_definitions(const Store& store);

class IndexFileWriter {
 public:
  static Result<std::unique_ptr<IndexFileWriter>> create(const std::string& path,
                                                         int compression_level);

  // Nothing is written any more after a write failed; close() says so.
  template <typename T>
  PartPlace write(T& value) {
    archive_.clear();
    archive_.put(value);
    return write_bytes(archive_.bytes());
  }
  [[nodiscard]] std::uint64_t size_bytes() const { return offset_; }
  // Only then does the file appear.
  Status close(IndexDirectory& directory);

 private:
  IndexFileWriter(std::unique_ptr<FileSink> file, int compression_level);
  PartPlace write_bytes(std::span<const std::uint8_t> bytes);
  void write_raw(std::span<const std::uint8_t> bytes);

  std::unique_ptr<FileSink> file_;
  Status status_ = Done{};
  trace::BlockPacker packer_;
  ArchiveWriter archive_;
  std::uint64_t offset_ = 0;
};

// Reads a file that may be anything.
class IndexFile {
 public:
  // Null if there is none, or it is not an index of this identity.
  static std::unique_ptr<IndexFile> open(const std::string& path, const Identity& identity);

  // Empty if the part is damaged.
  template <typename T>
  std::optional<T> read(const PartPlace& place) {
    std::optional<T> value;
    const std::optional<std::vector<std::uint8_t>> bytes = read_bytes(place);
    if (!bytes) return value;
    ArchiveReader archive(*bytes, limits_);
    archive.put(value.emplace());
    if (!archive.is_whole()) value.reset();
    return value;
  }

  [[nodiscard]] const IndexDirectory& directory() const { return directory_; }
  [[nodiscard]] const Store& store() const { return store_; }
  // The recording's rows → the store's, of a recording that is one file.
  [[nodiscard]] const trace::DefinedRows& rows() const { return rows_; }
  // The same of a chapter; none if it is not known, or damaged.
  [[nodiscard]] std::optional<trace::DefinedRows> rows_of(std::uint32_t chapter);
  // Where the recording defines sets of labels.
  [[nodiscard]] const std::vector<LabelBlock>& label_blocks() const { return label_blocks_; }
  [[nodiscard]] const IndexedOverviews& overviews() const { return overviews_; }
  [[nodiscard]] const IndexedDevice* device(DeviceIndex index) const;

 private:
  explicit IndexFile(std::unique_ptr<FileSource> file) : file_(std::move(file)) {}
  std::optional<std::vector<std::uint8_t>> read_bytes(const PartPlace& place);
  bool read_directory(const Identity& identity);
  bool read_definitions();
  bool read_label_blocks();
  [[nodiscard]] bool is_consistent() const;
  [[nodiscard]] bool are_places_in_order() const;

  std::unique_ptr<FileSource> file_;
  IdLimits limits_;
  IndexDirectory directory_;
  Store store_;
  trace::DefinedRows rows_;
  std::vector<LabelBlock> label_blocks_;
  IndexedOverviews overviews_;
};

// The lists of fields, as a number.
std::uint64_t index_schema_checksum();

}  // namespace gpumemprof
