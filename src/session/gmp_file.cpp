#include "session/gmp_file.h"

#include "store/store_source.h"
#include "trace/writer.h"

namespace gpumemprof {

Status write_gmp_file(const Store& store, const std::string& path, FileSink::Existing existing,
                      const Facts& more_facts) {
  TraceOptions options;
  options.existing = existing;
  options.appears = FileSink::Appears::when_closed;
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
  Ending ending;
  ending.is_closed = true;
  ending.reason = "converted";
  return writer.value()->close(store.origin().ending.value_or(ending));
}

}  // namespace gpumemprof
