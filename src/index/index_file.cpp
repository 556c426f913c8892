#include "index/index_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "trace/checksum.h"

namespace gpumemprof {

namespace {

constexpr std::array<std::uint8_t, 8> kIndexMagic = {0x89, 'G', 'M', 'P', 'I', 'D', 'X', '\n'};
constexpr std::size_t kFooterBytes = 8 + 4 + kIndexMagic.size();
constexpr std::size_t kPartBlockBytes = std::size_t{8} << 20U;
// Blocks of an index are optional ones to a reader of recordings.
constexpr auto kPartBlock = static_cast<trace::BlockKind>(0xC0);

std::vector<std::uint64_t> stream_handles(const Store& store) {
  std::vector<std::uint64_t> streams;
  streams.reserve(store.stream_count());
  for (std::uint32_t row = 0; row < store.stream_count(); ++row)
    streams.push_back(store.stream_handle(row));
  return streams;
}

bool read_fully(FileSource& file, std::uint64_t offset, std::span<std::uint8_t> into) {
  file.move_to(offset);
  std::size_t have = 0;
  while (have < into.size()) {
    const Result<std::size_t> got = file.read(std::as_writable_bytes(into.subspan(have)));
    if (!got || got.value() == 0) return false;
    have += got.value();
  }
  return true;
}

}  // namespace

IndexedNames indexed_names(const Store& store) {
  IndexedNames names;
  names.origin = store.origin();
  names.settings = store.settings();
  names.program_folder = store.program_folder();
  for (std::size_t row = 0; row < store.strings().size(); ++row)
    names.strings.emplace_back(store.text(StringId(row)));
  names.streams = stream_handles(store);
  for (std::uint32_t row = 0; row < store.pool_count(); ++row)
    names.pools.push_back(store.pool(row));
  return names;
}

IndexedDefinitions indexed_definitions(const Store& store) {
  IndexedDefinitions found;
  found.frames.assign(store.frames().begin(), store.frames().end());
  found.callers.assign(store.stacks().callers().begin(), store.stacks().callers().end());
  found.stack_frames.assign(store.stacks().frames().begin(), store.stacks().frames().end());
  found.modules = store.modules();
  return found;
}

IndexFileWriter::IndexFileWriter(std::unique_ptr<FileSink> file, int compression_level)
    : file_(std::move(file)), packer_(compression_level) {
  write_raw(kIndexMagic);
}

Result<std::unique_ptr<IndexFileWriter>> IndexFileWriter::create(const std::string& path,
                                                                 int compression_level) {
  // A pipe would wait for somebody who reads it.
  std::error_code ignored;
  const std::filesystem::file_status there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    return Error{ErrorCode::environment, "is not a file", path, "move it away"};
  Result<std::unique_ptr<FileSink>> file =
      FileSink::create(path, FileSink::Existing::replace, FileSink::Appears::when_closed);
  if (!file) return file.error();
  return std::unique_ptr<IndexFileWriter>(
      new IndexFileWriter(std::move(file).value(), compression_level));
}

void IndexFileWriter::write_raw(std::span<const std::uint8_t> bytes) {
  if (!status_) return;
  status_ = file_->write(std::as_bytes(bytes));
  offset_ += bytes.size();
}

PartPlace IndexFileWriter::write_bytes(std::span<const std::uint8_t> bytes) {
  PartPlace place;
  for (std::size_t first = 0; first < bytes.size() || first == 0; first += kPartBlockBytes) {
    const std::size_t size = std::min(kPartBlockBytes, bytes.size() - first);
    place.push_back({offset_, packer_.next_number()});
    trace::OutBytes block;
    packer_.pack(kPartBlock, bytes.subspan(first, size), block);
    write_raw(block.span());
  }
  return place;
}

Status IndexFileWriter::close(IndexDirectory& directory) {
  const PartPlace place = write(directory);
  if (place.size() != 1)
    return Error{ErrorCode::environment, "the index would be too large", file_->path(), ""};
  trace::OutBytes footer;
  footer.fixed(place.front().byte_offset);
  footer.fixed(place.front().number);
  footer.bytes(kIndexMagic);
  write_raw(footer.span());
  if (!status_) return status_;
  return file_->close();
}

std::unique_ptr<IndexFile> IndexFile::open(const std::string& path, const Identity& identity) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return nullptr;
  std::unique_ptr<IndexFile> index(new IndexFile(std::move(file).value()));
  if (!index->read_directory(identity) || !index->read_definitions() || !index->read_label_blocks())
    return nullptr;
  std::optional<IndexedOverviews> overviews =
      index->read<IndexedOverviews>(index->directory_.overviews);
  if (!overviews) return nullptr;
  if (!index->directory_.is_of_chapters()) {
    std::optional<trace::DefinedRows> rows = index->rows_of(0);
    if (!rows) return nullptr;
    index->rows_ = std::move(*rows);
  }
  index->overviews_ = std::move(*overviews);
  return index->is_consistent() ? std::move(index) : nullptr;
}

std::optional<std::vector<std::uint8_t>> IndexFile::read_bytes(const PartPlace& place) {
  // A few bytes can stand for a whole block of equal ones.
  const std::uint64_t most_bytes = (std::uint64_t{64} << 20U) + 64 * file_->size_bytes();
  std::optional<std::vector<std::uint8_t>> bytes(std::in_place);
  trace::BlockReader blocks(*file_);
  for (const trace::BlockPlace& one : place) {
    file_->move_to(one.byte_offset);
    blocks.go_on_at(one);
    trace::Block block;
    if (one.byte_offset >= file_->size_bytes() ||
        blocks.next(block) != trace::BlockReader::Outcome::block || block.kind != kPartBlock ||
        bytes->size() + block.content.size() > most_bytes)
      return std::nullopt;
    bytes->insert(bytes->end(), block.content.begin(), block.content.end());
  }
  return bytes;
}

bool IndexFile::read_directory(const Identity& identity) {
  std::array<std::uint8_t, kIndexMagic.size()> magic{};
  std::array<std::uint8_t, kFooterBytes> footer{};
  const std::uint64_t size_bytes = file_->size_bytes();
  if (size_bytes < magic.size() + footer.size() || !read_fully(*file_, 0, magic) ||
      magic != kIndexMagic || !read_fully(*file_, size_bytes - footer.size(), footer))
    return false;
  trace::InBytes in(footer);
  const auto byte_offset = in.fixed<std::uint64_t>();
  const auto number = in.fixed<std::uint32_t>();
  if (std::memcmp(in.bytes(kIndexMagic.size()).data(), kIndexMagic.data(), kIndexMagic.size()) != 0)
    return false;
  std::optional<IndexDirectory> directory = read<IndexDirectory>({{byte_offset, number}});
  if (!directory || directory->identity != identity) return false;
  directory_ = std::move(*directory);
  return true;
}

bool IndexFile::read_definitions() {
  std::optional<IndexedNames> names = read<IndexedNames>(directory_.names);
  if (!names) return false;
  store_.set_origin(names->origin);
  store_.set_settings(names->settings);
  store_.set_program_folder(names->program_folder);
  for (const std::string& text : names->strings) store_.add_string(text);
  for (const std::uint64_t handle : names->streams) store_.add_stream(handle);
  for (const PoolId pool : names->pools) store_.add_pool(pool);
  // Whatever is there twice would shift all rows behind it.
  if (store_.strings().size() != names->strings.size() ||
      store_.stream_count() != names->streams.size() || store_.pool_count() != names->pools.size())
    return false;
  constexpr std::size_t kAny = std::numeric_limits<std::uint32_t>::max();
  limits_ = {names->strings.size(), kAny, kAny, names->streams.size(), names->pools.size()};
  std::optional<IndexedDefinitions> known = read<IndexedDefinitions>(directory_.definitions);
  if (!known || known->callers.size() != known->stack_frames.size()) return false;
  for (const Frame& frame : known->frames) store_.add_frame(frame);
  if (store_.frames().size() != known->frames.size()) return false;
  for (std::size_t row = 0; row < known->callers.size(); ++row) {
    const StackId caller = known->callers[row];
    if ((!caller.is_none() && caller.index >= row) ||
        known->stack_frames[row].index >= known->frames.size() ||
        store_.add_stack(caller, known->stack_frames[row]) != StackId(row))
      return false;
  }
  for (const ModuleLabel& module : known->modules) store_.add_module(module);
  limits_.frames = known->frames.size();
  limits_.stacks = known->callers.size();
  return true;
}

// Each block defines other sets than those before: no part can be listed twice.
bool IndexFile::read_label_blocks() {
  for (const PartPlace& place : directory_.label_blocks) {
    const std::optional<std::vector<LabelBlock>> blocks = read<std::vector<LabelBlock>>(place);
    if (!blocks) return false;
    for (const LabelBlock& block : *blocks) {
      if (!label_blocks_.empty() && block.first_set <= label_blocks_.back().first_set) return false;
      label_blocks_.push_back(block);
    }
  }
  return true;
}

std::optional<trace::DefinedRows> IndexFile::rows_of(std::uint32_t chapter) {
  const auto place = std::ranges::lower_bound(directory_.rows, chapter, {}, &IndexedRows::chapter);
  if (place == directory_.rows.end() || place->chapter != chapter) return std::nullopt;
  std::optional<trace::DefinedRows> rows = read<trace::DefinedRows>(place->rows);
  const auto is_below = [](const std::vector<std::uint32_t>& known, std::size_t limit) {
    return std::ranges::all_of(known, [&](std::uint32_t row) { return row < limit; });
  };
  if (rows && (!is_below(rows->streams, limits_.streams) || !is_below(rows->pools, limits_.pools)))
    rows.reset();
  return rows;
}

bool IndexFile::are_places_in_order() const {
  const std::vector<RecordingPlace>& places = directory_.checkpoints;
  const auto is_before = [](const RecordingPlace& one, const RecordingPlace& other) {
    return one.is_before(other);
  };
  const auto is_odd = [&](const RecordingPlace& place) {
    return (place.chapter > 0) != directory_.is_of_chapters() || place.from_chapter > place.chapter;
  };
  const auto byte_offset = [](const LabelBlock& block) { return block.place.byte_offset; };
  return std::ranges::is_sorted(places, is_before) && std::ranges::none_of(places, is_odd) &&
         std::ranges::is_sorted(directory_.rows, {}, &IndexedRows::chapter) &&
         std::ranges::is_sorted(label_blocks_, {}, byte_offset);
}

bool IndexFile::is_consistent() const {
  const std::vector<DeviceOverview>& devices = overviews_.at_peak.devices;
  if (overviews_.at_end.devices.size() != devices.size() ||
      directory_.devices.size() != devices.size())
    return false;
  if (!are_places_in_order()) return false;
  for (std::size_t row = 0; row < devices.size(); ++row) {
    const IndexedDevice& device = directory_.devices[row];
    const std::size_t checkpoints = directory_.checkpoints.size();
    if (device.device != devices[row].device || device.events != devices[row].events ||
        device.checkpoints.size() != checkpoints || device.states.size() != checkpoints ||
        device.spans.size() != checkpoints || checkpoints < 2 ||
        !std::ranges::is_sorted(device.checkpoints) || device.checkpoints.front() != 0 ||
        device.checkpoints.back() != device.events)
      return false;
    const std::uint32_t size = pyramid_bucket_events(device.events);
    if (device.bucket_count != (device.events + size - 1) / size) return false;
  }
  return true;
}

const IndexedDevice* IndexFile::device(DeviceIndex index) const {
  const auto found = std::ranges::find(directory_.devices, index, &IndexedDevice::device);
  return found == directory_.devices.end() ? nullptr : &*found;
}

std::uint64_t index_schema_checksum() {
  SchemaWriter schema;
  const auto add = [&]<typename T>(T value) { schema.put(value); };
  add(IndexDirectory());
  add(IndexedNames());
  add(IndexedDefinitions());
  add(IndexedOverviews());
  add(trace::DefinedRows());
  add(StoredCheckpoint());
  add(StoredSpans());
  add(LabelBlock());
  add(PyramidBucket());
  add(OverlayOom());
  return trace::checksum(
      {reinterpret_cast<const std::uint8_t*>(schema.text().data()), schema.text().size()});
}

}  // namespace gpumemprof
