// Small snapshots for tests, in the format of torch 2.12, and the result of reading them.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "ingest/pickle_writer.h"
#include "store/store.h"

namespace gpumemprof::test {

inline constexpr std::int64_t kBase = 0x7f4e00000000;
inline constexpr std::int64_t kTime = 1760000000000000;

PyRef py_frame(std::string_view name, std::string_view file, std::int64_t line);
PyRef py_event(std::string_view action, std::int64_t address, std::int64_t size,
               PyRef frames = nullptr);
PyRef py_block(std::int64_t address, std::int64_t size, std::int64_t requested,
               std::string_view state, PyRef frames = nullptr);
PyRef py_segment(std::int64_t device, std::int64_t address, std::int64_t size,
                 std::vector<PyRef> blocks);
PyRef py_snapshot(std::vector<PyRef> segments, std::vector<PyRef> device_traces);

// One device with one segment, two stacks that share a frame, and six events.
PyRef small_snapshot();

using Read = Result<std::unique_ptr<Store>>;
Read read_bytes(std::string_view bytes);
// Reads what must be readable; throws if it is not.
std::unique_ptr<Store> read_object(const PyRef& object, int protocol = 4,
                                   PickleStyle style = PickleStyle::python);

// Everything the store holds, with ids resolved, as lines: two readings are equal if these are.
std::string described(const Store& store);
std::string described_stack(const Store& store, StackId stack);

inline const DeviceRecord& only_device(const Store& store) { return *store.devices().at(0); }

}  // namespace gpumemprof::test
