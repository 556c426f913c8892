#include "ingest/torch_snapshot.h"

#include <fmt/core.h>

#include <algorithm>

#include "ingest/gzip_source.h"
#include "ingest/pickle/machine.h"
#include "ingest/snapshot_assembly.h"
#include "ingest/snapshot_records.h"

namespace gpumemprof {
namespace {

constexpr const char* kHowToMake = "make one with torch.cuda.memory._dump_snapshot(path)";

// Memory for reading is bounded by what a real snapshot of that size needs; gzip files may expand a
// lot. The size of input from a pipe is not known.
std::size_t memory_limit_bytes(std::uint64_t file_bytes, bool is_gzip) {
  constexpr std::uint64_t kPipe = std::uint64_t{2} << 30;
  constexpr std::uint64_t kBase = std::uint64_t{256} << 20;
  if (file_bytes == 0) return kPipe;
  return kBase + file_bytes * (is_gzip ? 64 : 16);
}

// Snapshots compress to a twentieth or less; anything that expands far more is malicious.
std::uint64_t unzipped_limit_bytes(std::uint64_t file_bytes) {
  constexpr std::uint64_t kBase = std::uint64_t{64} << 20;
  constexpr std::uint64_t kPerFileByte = 200;
  return file_bytes == 0 ? ~std::uint64_t{0} : kBase + file_bytes * kPerFileByte;
}

class CountingSource final : public ByteSource {
 public:
  CountingSource(ByteSource& source, std::uint64_t total, const Progress& progress)
      : source_(source), total_(total), progress_(progress) {}

  Result<std::size_t> read(std::span<std::byte> out) override {
    Result<std::size_t> got = source_.read(out);
    if (!got) return got;
    done_ += got.value();
    if (progress_ && (done_ >= next_report_ || got.value() == 0)) {
      progress_(done_, total_);
      next_report_ = done_ + kReportEvery;
    }
    return got;
  }

 private:
  static constexpr std::uint64_t kReportEvery = std::uint64_t{4} << 20;
  ByteSource& source_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::uint64_t next_report_ = kReportEvery;
  const Progress& progress_;
};

Error not_a_snapshot(const std::string& name, std::uint64_t offset, const std::string& what) {
  return {ErrorCode::bad_input, fmt::format("not a PyTorch memory snapshot: {}", what),
          fmt::format("{}, byte {}", name, offset), kHowToMake};
}

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// Whether a file that is no pickle is text that the user named by mistake. The oldest pickles are
// text too, but a snapshot among them begins with a mark: it is a dict or a list.
bool looks_like_text(std::span<const std::byte> start) {
  return !starts_with(start, "(") && std::ranges::all_of(start, [](std::byte byte) {
    const auto c = std::to_integer<unsigned char>(byte);
    return (c >= ' ' && c <= '~') || c == '\t' || c == '\n' || c == '\r';
  });
}

}  // namespace

bool looks_like_snapshot(std::span<const std::byte> start) {
  return starts_with(start, "\x80") || GzipSource::looks_like_gzip(start);
}

Result<std::unique_ptr<TorchSnapshot>> TorchSnapshot::open(const std::string& path,
                                                           Progress progress) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open_input(path);
  if (!file) return file.error();
  const std::uint64_t size_bytes = file.value()->size_bytes();
  return std::unique_ptr<TorchSnapshot>(
      new TorchSnapshot(std::move(file).value(), size_bytes, path, std::move(progress)));
}

std::unique_ptr<TorchSnapshot> TorchSnapshot::from_bytes(std::span<const std::byte> bytes,
                                                         std::string name) {
  return std::unique_ptr<TorchSnapshot>(
      new TorchSnapshot(std::make_unique<BufferSource>(bytes), bytes.size(), std::move(name), {}));
}

Status TorchSnapshot::deliver(EventSink& sink) {
  CountingSource counted(*source_, size_bytes_, progress_);
  constexpr std::size_t kPeekedBytes = 64;
  PeekableSource start(counted, kPeekedBytes);
  const Result<std::span<const std::byte>> magic = start.peek();
  if (!magic) return magic.error();
  if (magic.value().empty()) {
    return Error{ErrorCode::bad_input, "the file is empty", fmt::format("{}, byte 0", name_),
                 "record the run again"};
  }
  if (starts_with(magic.value(), "PK\x03\x04")) {
    return not_a_snapshot(name_, 0, "this is a zip archive, as torch.save writes it");
  }
  const bool is_text = looks_like_text(magic.value());
  const bool is_gzip = GzipSource::looks_like_gzip(magic.value());
  std::unique_ptr<GzipSource> unzipped =
      is_gzip ? std::make_unique<GzipSource>(
                    start, std::max(unzipped_limit_bytes(size_bytes_), least_limit_bytes_))
              : nullptr;

  pickle::Heap heap;
  SnapshotRecords records(sink, heap);
  Result<pickle::Outcome> outcome = [&] {
    pickle::Window window(is_gzip ? static_cast<ByteSource&>(*unzipped) : start);
    const std::uint64_t limit =
        std::max<std::uint64_t>(memory_limit_bytes(size_bytes_, is_gzip), least_limit_bytes_);
    return pickle::Machine(window, heap, records, limit).run();
  }();
  if (!outcome) {
    Error error = outcome.error();
    if (error.where != name_)
      error.where = error.where.empty() ? name_ : name_ + ", " + error.where;
    return error;
  }
  std::optional<pickle::Damage>& damage = outcome.value().damage;
  if (damage && is_gzip && !unzipped->broken().empty()) damage->reason = unzipped->broken();

  SnapshotAssembly assembly(sink, heap, records);
  const std::optional<std::string> objection = assembly.deliver(outcome.value().root, damage);
  if (objection && damage && is_text) {
    return Error{ErrorCode::bad_input, "this is a text file, not a recording",
                 fmt::format("{}, byte 0", name_), "name a .gmp file or a PyTorch memory snapshot"};
  }
  if (objection) return not_a_snapshot(name_, damage ? damage->byte_offset : 0, *objection);
  return Done{};
}

}  // namespace gpumemprof
