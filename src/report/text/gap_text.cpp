#include "report/text/gap_text.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "report/text/phrases.h"

namespace gpumemprof::text {
namespace {

constexpr std::size_t kBytesWidth = 11;

std::string row(const std::optional<std::uint64_t>& bytes, std::string_view what) {
  return right(bytes ? format_bytes(*bytes) : "unknown", kBytesWidth) + "  " + std::string(what) +
         "\n";
}

std::string_view spoken(OutsideKind kind) {
  switch (kind) {
    case OutsideKind::context:
      return "CUDA's context";
    case OutsideKind::before_recording:
      return "context and libraries from before the recording";
    case OutsideKind::kernels:
      return "kernels and libraries, loaded when first used";
    case OutsideKind::cublas:
      return "cuBLAS, outside of the pool, and kernels loaded with it";
    case OutsideKind::cudnn:
      return "cuDNN, outside of the pool, and kernels loaded with it";
    case OutsideKind::cusolver:
      return "cuSOLVER, and kernels loaded with it";
    case OutsideKind::nccl:
      break;
  }
  return "NCCL and other collectives";
}

}  // namespace

std::string gap_table(const DeviceGap& gap) {
  std::string out =
      "  From the pool to the card at the last sample (kinds outside of the pool inferred)\n";
  out += row(gap.allocated_bytes, "allocated");
  if (gap.pending_bytes > 0) out += row(gap.pending_bytes, "let go, but a stream still uses it");
  out += row(gap.split_bytes, "free beside blocks in use");
  out += row(gap.cached_bytes, "free, in segments that nothing uses");
  out += row(gap.reserved_bytes, "= reserved by the pool");
  for (std::size_t kind = 0; kind < gap.outside_by_kind.size(); ++kind) {
    if (gap.outside_by_kind[kind] > 0)
      out += row(gap.outside_by_kind[kind], spoken(static_cast<OutsideKind>(kind)));
  }
  out += row(gap.process_bytes, "= this process");
  out += row(gap.other_processes_bytes, "other processes");
  out += row(gap.driver_bytes, "the driver, for no process it names");
  out += row(gap.used_bytes, "= used");
  if (gap.firmware_bytes) out += row(gap.firmware_bytes, "kept by the firmware");
  out += row(gap.free_bytes, "free");
  out += row(gap.total_bytes, "= the card");
  if (!gap.is_consistent)
    out += "  The pool changed while the driver was asked: the sums do not fit together.\n";
  return out;
}

}  // namespace gpumemprof::text
