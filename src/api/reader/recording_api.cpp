// Errors, and a recording as a whole.
#include "api/reader/opened_recording.h"
#include "session/excerpt/excerpt.h"

namespace gpumemprof::api {
namespace {

using Opened = Result<std::shared_ptr<const Recording>>;

gpumemprof_recording* handed_out(const char* path, Opened opened, gpumemprof_error** error) {
  if (opened && opened.value() == nullptr) {
    opened = Error{ErrorCode::usage, "no part of it can be opened: its start is not known", path,
                   "open it as a whole"};
  }
  if (opened) return new gpumemprof_recording(std::move(opened).value());
  report(error, opened.error());
  return nullptr;
}

template <typename Open>
gpumemprof_recording* open_with(const char* path, gpumemprof_error** error, const Open& open) {
  return guarded<gpumemprof_recording*>(nullptr, error, [&]() -> gpumemprof_recording* {
    if (path != nullptr) return handed_out(path, open(), error);
    report(error, {ErrorCode::usage, "no path was given", "", "name a recording"});
    return nullptr;
  });
}

}  // namespace
}  // namespace gpumemprof::api

using namespace gpumemprof;

const char* gpumemprof_version(void) { return GPUMEMPROF_VERSION; }

// Where a call failed and set no error, there was no memory for one.
int gpumemprof_error_kind(const gpumemprof_error* error) {
  return exit_code(error == nullptr ? ErrorCode::environment : error->error.code);
}
const char* gpumemprof_error_message(const gpumemprof_error* error) {
  return error == nullptr ? api::kNoMemory : error->error.message.c_str();
}
const char* gpumemprof_error_where(const gpumemprof_error* error) {
  return error == nullptr ? "" : error->error.where.c_str();
}
const char* gpumemprof_error_hint(const gpumemprof_error* error) {
  return error == nullptr ? "" : error->error.hint.c_str();
}
const char* gpumemprof_error_sentence(const gpumemprof_error* error) {
  return error == nullptr ? api::kNoMemory : error->sentence.c_str();
}
void gpumemprof_error_free(gpumemprof_error* error) { delete error; }

gpumemprof_recording* gpumemprof_open(const char* path, gpumemprof_error** error) {
  return api::open_with(path, error, [&] { return Recording::open(path); });
}

gpumemprof_recording* gpumemprof_open_steps(const char* path, uint32_t first, uint32_t last,
                                            gpumemprof_error** error) {
  return api::open_with(path, error, [&] {
    return open_excerpt(path, {AskedPart::Kind::steps, first, last, std::nullopt});
  });
}

void gpumemprof_close(gpumemprof_recording* recording) { delete recording; }

void gpumemprof_get_info(const gpumemprof_recording* recording, gpumemprof_recording_info* info,
                         size_t info_size) {
  if (recording == nullptr) return api::fill(info, info_size, gpumemprof_recording_info{});
  const Store& store = recording->recording->store();
  const ProcessFacts& process = store.facts().process();
  gpumemprof_recording_info filled{};
  filled.path = api::text_of(recording->recording->path());
  filled.kind = api::text_of(store.origin().kind);
  filled.devices = static_cast<std::uint32_t>(recording->devices.size());
  filled.is_whole = recording->completeness.is_whole() && recording->cut.empty() ? 1 : 0;
  filled.lost_events = recording->completeness.least_lost;
  filled.cut = api::text_of(recording->cut);
  filled.torch = api::text_of(process.torch);
  filled.recorder = api::text_of(process.gpumemprof);
  filled.command = api::text_of(process.command);
  filled.host = api::text_of(process.host);
  api::fill(info, info_size, filled);
}
