#include "report/text/overview/card_usage_text.h"

#include <fmt/core.h>

#include "base/bytes.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

constexpr std::size_t kBytesWidth = 11;

std::string row(const std::optional<std::uint64_t>& bytes, std::string_view what) {
  return right(bytes ? format_bytes(*bytes) : "unknown", kBytesWidth) + "  " + std::string(what) +
         "\n";
}

std::string_view outside_name(OutsideKind kind) {
  switch (kind) {
    case OutsideKind::context:
      return "CUDA's context";
    case OutsideKind::before_recording:
      return "context and libraries loaded before the recording";
    case OutsideKind::kernels:
      return "kernels and libraries, loaded when first used";
    case OutsideKind::cublas:
      return "cuBLAS, outside the pool, and kernels loaded with it";
    case OutsideKind::cudnn:
      return "cuDNN, outside the pool, and kernels loaded with it";
    case OutsideKind::cusolver:
      return "cuSOLVER, and kernels loaded with it";
    case OutsideKind::nccl:
      break;
  }
  return "NCCL and other collectives";
}

}  // namespace

std::string card_usage_table(const CardUsage& gap) {
  std::string out = "  The whole card at the last sample (kinds outside the pool are inferred)\n";
  out += row(gap.allocated_bytes, "allocated");
  if (gap.pending_bytes > 0) out += row(gap.pending_bytes, "freed, still in use by another stream");
  out += row(gap.split_bytes, "gaps between live blocks");
  out += row(gap.cached_bytes, "cached: whole free segments");
  out += row(gap.reserved_bytes, "= reserved by the pool");
  for (std::size_t kind = 0; kind < gap.outside_by_kind.size(); ++kind) {
    if (gap.outside_by_kind[kind] > 0)
      out += row(gap.outside_by_kind[kind], outside_name(static_cast<OutsideKind>(kind)));
  }
  out += row(gap.process_bytes, "= this process");
  out += row(gap.other_processes_bytes, "other processes");
  out += row(gap.driver_bytes, "driver, not attributed to a process");
  out += row(gap.used_bytes, "= used");
  if (gap.firmware_bytes) out += row(gap.firmware_bytes, "reserved by firmware");
  out += row(gap.free_bytes, "free");
  out += row(gap.total_bytes, "= the card");
  if (!gap.is_consistent)
    out += "  The pool changed while the driver was queried, so the sums do not add up.\n";
  return out;
}

}  // namespace gpumemprof::text
