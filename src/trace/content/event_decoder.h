// EventDecoder: the content of an events block → events, with every number checked before it is
// used.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "event/event.h"
#include "trace/bytes_io.h"
#include "trace/content/definitions.h"
#include "trace/format.h"

namespace gpumemprof::trace {

class EventDecoder {
 public:
  explicit EventDecoder(const DefinitionMap& definitions) : definitions_(definitions) {}

  // False if the content is malformed; then none of it may be used.
  bool decode(InBytes head, DeviceIndex& device, EventColumns& events);

 private:
  InBytes& column(EventColumn which) { return columns_[static_cast<std::size_t>(which)]; }
  bool take_columns(InBytes& head, std::size_t count);
  bool decode_operations(EventColumns& events, std::size_t count, unsigned address_shift);
  bool decode_times(EventColumns& events, std::uint64_t mode, std::int64_t first_ns,
                    std::int64_t unit_ns);
  std::uint64_t rest_of_time_step(std::uint64_t low_bits);
  template <typename T>
  bool decode_optional(EventColumn which, Column<T>& values, std::size_t count,
                       const std::vector<T>& known, T none);
  bool decode_modules(Column<std::uint32_t>& modules, std::size_t count);

  const DefinitionMap& definitions_;
  std::array<InBytes, kEventColumnCount> columns_;
  std::span<const std::uint8_t> operations_;
  // While operations are decoded:
  std::vector<std::uint32_t> anchors_;  // their rows
  std::vector<std::uint64_t> sizes_;
};

}  // namespace gpumemprof::trace
