// What every function of the public interface does: exceptions end here, errors become objects that
// the caller frees, and structs are filled in the size that the caller knows.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "api/api_words.h"
#include "base/error.h"
#include "event/event.h"
#include "gpumemprof/gpumemprof.h"

struct gpumemprof_error {
  gpumemprof::Error error;
  std::string sentence;
};

namespace gpumemprof::api {

inline constexpr const char* kNoMemory = "not enough memory";

// Nothing is said where not even that can be allocated.
inline void report(gpumemprof_error** out, const Error& error) noexcept {
  if (out == nullptr) return;
  try {
    Error said = in_api_words(error);
    std::string sentence = said.sentence();
    *out = new gpumemprof_error{std::move(said), std::move(sentence)};
  } catch (const std::exception&) {
    *out = nullptr;
  }
}

// The result of `work`; `failed`, and an error, if it throws.
template <typename T, typename Work>
T guarded(T failed, gpumemprof_error** error, Work&& work) noexcept {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    report(error, {ErrorCode::environment, kNoMemory, "",
                   "open a part of the recording, or use a machine with more memory"});
  } catch (const std::exception& bug) {
    report(error, {ErrorCode::bug, std::string("internal error: ") + bug.what(), "",
                   "please report it together with the recording"});
  }
  return failed;
}

// What a function that is given NULL in place of an object says.
inline Error no_object(const std::string& what) {
  return {ErrorCode::usage, "no " + what + " was given", "",
          "look at the error of the call that was to return it"};
}

inline gpumemprof_text text_of(std::string_view text) { return {text.data(), text.size()}; }

// As much of `value` as the caller's struct holds; what a newer caller knows in addition is zeroed.
template <typename T>
void fill(void* out, std::size_t out_size, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (out == nullptr) return;
  std::memset(out, 0, out_size);
  std::memcpy(out, &value, std::min(out_size, sizeof(T)));
}

// A caller's options as this version knows them: what an older caller does not know keeps its
// default.
template <typename T>
T taken(const T* options, std::size_t options_size, T defaults) {
  if (options != nullptr) std::memcpy(&defaults, options, std::min(options_size, sizeof(T)));
  return defaults;
}

// None: no recording has a device with this index.
inline std::optional<DeviceIndex> device_index(std::int32_t index) {
  using Limits = std::numeric_limits<DeviceIndex>;
  if (index < Limits::min() || index > Limits::max()) return std::nullopt;
  return static_cast<DeviceIndex>(index);
}
inline Error no_device(std::int32_t index) {
  return {ErrorCode::usage, "there is no device " + std::to_string(index), "",
          "use the index of a device, as gpumemprof_device has it"};
}

// Rows `first` and following of `total`, each made by `row`; returns how many.
template <typename Row>
std::size_t fill_rows(void* rows, std::size_t count, std::size_t row_size, std::uint64_t first,
                      std::uint64_t total, const Row& row) {
  if (rows == nullptr || first >= total) return 0;
  const std::uint64_t read = std::min<std::uint64_t>(count, total - first);
  for (std::uint64_t index = 0; index < read; ++index)
    fill(static_cast<char*>(rows) + index * row_size, row_size, row(first + index));
  return static_cast<std::size_t>(read);
}

}  // namespace gpumemprof::api
