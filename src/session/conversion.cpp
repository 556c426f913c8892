#include "session/conversion.h"

#include <filesystem>
#include <system_error>

#include "report/torch_snapshot/torch_snapshot.h"
#include "store/store_source.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

Status write_trace(const Store& store, const std::string& path) {
  TraceOptions options;
  options.existing = FileSink::Existing::replace;
  Result<std::unique_ptr<TraceWriter>> writer =
      TraceWriter::open(path, store.origin(), store.settings(), options);
  if (!writer) return writer.error();
  Status delivered = StoreSource(store).deliver(*writer.value());
  if (!delivered) return delivered;
  std::string ended = "converted";
  for (const auto& [fact, value] : store.origin().facts) {
    if (fact == kEndedFact) ended = value;
  }
  return writer.value()->close(ended);
}

Status write_as(const Store& store, FileFormat format, const std::string& path) {
  if (format == FileFormat::gmp) return write_trace(store, path);
  return write_torch_snapshot(store, path, FileSink::Existing::replace);
}

}  // namespace

Status convert(const Recording& recording, FileFormat format, const std::string& path,
               FileSink::Existing existing) {
  std::error_code ignored;
  const std::filesystem::file_status there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && existing == FileSink::Existing::refuse) {
    return Error{ErrorCode::usage, "there is such a file already", path,
                 "give another name, or -f to replace it"};
  }
  // A pipe or a device is written to, never replaced.
  const bool is_special =
      std::filesystem::exists(there) && !std::filesystem::is_regular_file(there);
  if (is_special) return write_as(recording.store(), format, path);
  const std::string part = path + ".part";
  Status written = write_as(recording.store(), format, part);
  if (!written) {
    std::filesystem::remove(part, ignored);
    return written;
  }
  std::error_code failure;
  std::filesystem::rename(part, path, failure);
  if (!failure) return Done{};
  std::filesystem::remove(part, ignored);
  return Error{ErrorCode::environment, "cannot be written (" + failure.message() + ")", path,
               "check that the folder exists and that you may write there"};
}

}  // namespace gpumemprof
