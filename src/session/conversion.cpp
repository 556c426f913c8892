#include "session/conversion.h"

#include <filesystem>
#include <system_error>

#include "report/torch_snapshot/torch_snapshot.h"
#include "store/store_source.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

Status write_trace(const Store& store, const std::string& path, const Facts& more_facts) {
  TraceOptions options;
  options.existing = FileSink::Existing::replace;
  Result<std::unique_ptr<TraceWriter>> writer =
      TraceWriter::open(path, store.origin(), store.settings(), options);
  if (!writer) return writer.error();
  Status delivered = StoreSource(store).deliver(*writer.value());
  if (!delivered) return delivered;
  if (!more_facts.empty()) {
    Origin origin = store.origin();
    origin.facts.insert(origin.facts.end(), more_facts.begin(), more_facts.end());
    writer.value()->set_origin(origin);
  }
  std::string ended = "converted";
  for (const auto& [fact, value] : store.origin().facts) {
    if (fact == kEndedFact) ended = value;
  }
  return writer.value()->close(ended);
}

Status write_as(const Store& store, FileFormat format, const std::string& path,
                const Facts& more_facts) {
  if (format == FileFormat::gmp) return write_trace(store, path, more_facts);
  return write_torch_snapshot(store, path, FileSink::Existing::replace);
}

}  // namespace

Status convert(const Recording& recording, FileFormat format, const std::string& path,
               FileSink::Existing existing, const Facts& more_facts) {
  std::error_code ignored;
  const std::filesystem::file_status there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && existing == FileSink::Existing::refuse) {
    return Error{ErrorCode::usage, "there is such a file already", path,
                 "give another name, or -f to replace it"};
  }
  // A pipe or a device is written to, never replaced.
  const bool is_special =
      std::filesystem::exists(there) && !std::filesystem::is_regular_file(there);
  if (is_special) return write_as(recording.store(), format, path, more_facts);
  const std::string part = path + ".part";
  Status written = write_as(recording.store(), format, part, more_facts);
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
