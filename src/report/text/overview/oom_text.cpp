#include "report/text/overview/oom_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/code/user_frame.h"
#include "base/bytes.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

std::string asker(const OomReport& oom, const Store& store) {
  if (oom.stack.is_none()) return "";
  return place(store, store.stacks().frame(user_part(store, oom.stack)));
}

std::string range(const ByteRange& bytes) {
  const std::string low = format_bytes(bytes.low);
  const std::string high = format_bytes(bytes.high);
  return low == high ? low : fmt::format("between {} and {}", low, high);
}

std::string shortage_text(const OomReport& oom) {
  if (!oom.short_bytes) {
    return fmt::format(
        "true shortage: {} in use, and {} more did not fit",  // when figures are missing
        format_bytes(oom.in_use_bytes()), format_bytes(oom.wanted_bytes));
  }
  const bool is_exact = oom.short_bytes->is_exact();
  return fmt::format(
      "true shortage: {} in use plus {} requested exceed the available memory by {}{}",
      format_bytes(oom.in_use_bytes()), format_bytes(oom.wanted_bytes), is_exact ? "" : "up to ",
      format_bytes(oom.short_bytes->high));
}

// "other processes on the card hold 134 GiB; 6.00 GiB requested, 3.60 GiB short"
std::string held_text(const OomReport& oom, const std::string& who, const std::string& where,
                      const std::optional<std::uint64_t>& bytes) {
  const std::string held = bytes ? format_bytes(*bytes) : "memory";
  return fmt::format("{} {}{}; {} requested, {} short", who, held, where,
                     format_bytes(oom.wanted_bytes),
                     oom.short_bytes ? format_bytes(oom.short_bytes->high) : "unknown");
}

std::string limit_text(const OomReport& oom) {
  if (!oom.limit) return "";
  return oom.is_limit_stated
             ? fmt::format("The limit is {}.", format_bytes(oom.limit->high))
             : fmt::format("The recording does not state the limit; it was {}.", range(*oom.limit));
}

std::string details_of_limit(const OomReport& oom) {
  if (!oom.short_bytes) return limit_text(oom);
  return fmt::format(
      "Fragmentation is not the cause: {} in use plus {} requested exceed the limit by {}{}, even "
      "without gaps. {}",
      format_bytes(oom.in_use_bytes()), format_bytes(oom.wanted_bytes),
      oom.short_bytes->is_exact() ? "" : "up to ", format_bytes(oom.short_bytes->high),
      limit_text(oom));
}

std::string details_of_fragmentation(const OomReport& oom) {
  std::string text;
  if (!oom.surviving_confs.empty()) {
    text = fmt::format("With {}, the same run gets past this request, {} reserved (simulated",
                       oom.surviving_confs.front(), format_bytes(oom.surviving_reserved_bytes));
    const std::size_t more = oom.surviving_confs.size() - 1;
    text += more == 0 ? ")." : fmt::format("; also with {}).", counted(more, "other setting"));
  }
  if (oom.surviving_confs.empty()) {
    text = fmt::format("{} of the pool was free, in pieces of at most {}.",
                       format_bytes(oom.memory.free_bytes), format_bytes(oom.largest_free_bytes));
  }
  if (oom.limit) text += " " + limit_text(oom);
  return text;
}

std::string details_of_hoard(const OomReport& oom) {
  return fmt::format(
      "The same line allocated {} of that size and freed none, so it would fill a higher limit "
      "too. The limit is on this process; the card had {} free. {}",
      counted(oom.hoarded_blocks, "block"), format_bytes(oom.device_free_bytes), limit_text(oom));
}

// "3.1 GiB short"
std::string short_text(const OomReport& oom) {
  if (!oom.short_bytes) return "not free in one piece";
  return fmt::format("{}{} short", oom.short_bytes->is_exact() ? "" : "up to ",
                     format_bytes(oom.short_bytes->high));
}

std::string growth_verdict(const OomReport& oom) {
  return fmt::format("memory kept from step to step: {} by then; {} requested, {}",
                     format_bytes(oom.grown_bytes.value_or(0)), format_bytes(oom.wanted_bytes),
                     short_text(oom));
}

std::string request_verdict(const OomReport& oom) {
  return fmt::format("one request for {}, while the largest before it was {}; {}",
                     format_bytes(oom.wanted_bytes), format_bytes(oom.largest_earlier_bytes),
                     short_text(oom));
}

std::string private_pool_verdict(const OomReport& oom) {
  return fmt::format(
      "{} requested, and enough was free, but {} of it only for a CUDA graph or another owner of a "
      "private pool",
      format_bytes(oom.wanted_bytes), format_bytes(oom.memory.private_pool_bytes));
}

std::string deferred_verdict(const OomReport& oom) {
  return fmt::format("{} were freed, but a stream still used them; {} requested, {}",
                     format_bytes(oom.memory.waiting_bytes), format_bytes(oom.wanted_bytes),
                     short_text(oom));
}

std::string doubt_text(const OomReport& oom, OomDoubt doubt) {
  switch (doubt) {
    case OomDoubt::history:
      return "The history before this is incomplete, so the contents of the pool are inferred.";
    case OomDoubt::limit:
      return fmt::format("The cause is fragmentation if the limit was at least {}.",
                         format_bytes(oom.in_use_bytes() + oom.wanted_bytes));
    case OomDoubt::card:
      return "The rest of the card was not recorded: other processes may have held it.";
    case OomDoubt::processes:
      return "The driver did not report which process held how much at that moment.";
    case OomDoubt::simulation:
      return "The simulation does not reproduce this recording exactly.";
    case OomDoubt::no_setting:
      return "None of the simulated allocator settings avoids it.";
    case OomDoubt::not_tried:
      break;
  }
  return "No other allocator setting could be simulated.";
}

std::string contribution_text(const OomReport& oom, OomCause cause) {
  if (cause == OomCause::other_processes && oom.other_processes_bytes)
    return fmt::format(" Other processes held {}.", format_bytes(*oom.other_processes_bytes));
  if (cause == OomCause::outside_pool && oom.outside_bytes) {
    return fmt::format(" This process held {} outside PyTorch's pool.",
                       format_bytes(*oom.outside_bytes));
  }
  if (cause == OomCause::single_request) {
    return fmt::format(" It is also by far the largest request: the largest before it was {}.",
                       format_bytes(oom.largest_earlier_bytes));
  }
  if (cause == OomCause::fragmentation) {
    const std::string gaps =
        fmt::format(" Gaps are not the main cause: {} of the pool was free in pieces",
                    format_bytes(oom.memory.free_bytes));
    return oom.surviving_confs.empty()
               ? gaps + "."
               : fmt::format("{}; with {} the run gets past this request (simulated) and grows on.",
                             gaps, oom.surviving_confs.front());
  }
  if (cause == OomCause::limit && oom.cause != OomCause::fragmentation && oom.hoarded_blocks == 0)
    return " There is a limit on this process. " + limit_text(oom);
  return "";
}

// What was available to the pool, in whole MiB.
std::optional<std::uint64_t> room_mib(const OomReport& oom) {
  if (oom.limit) return oom.limit->low / kMiB;
  if (oom.device_free_bytes == kUnknownBytes) return std::nullopt;
  return (oom.memory.reserved_bytes + oom.device_free_bytes) / kMiB;
}

}  // namespace

std::string oom_verdict(const OomReport& oom, const Store& store) {
  const std::string wanted = format_bytes(oom.wanted_bytes);
  std::string text;
  switch (oom.cause) {
    case OomCause::larger_than_card:
      text = fmt::format(
          "the request for {} alone is larger than {}", wanted,
          oom.card_bytes ? "the card, " + format_bytes(*oom.card_bytes) : std::string("any card"));
      break;
    case OomCause::limit:
      text = oom.device_free_bytes == kUnknownBytes
                 ? fmt::format("a limit on this process refused {}", wanted)
                 : fmt::format("a limit on this process refused {} while the card had {} free",
                               wanted, format_bytes(oom.device_free_bytes));
      break;
    case OomCause::other_processes:
      text = held_text(oom, "other processes on the card hold", "", oom.other_processes_bytes);
      break;
    case OomCause::outside_pool:
      text = held_text(oom, "this process holds", " outside PyTorch's pool", oom.outside_bytes);
      break;
    case OomCause::private_pool:
      text = private_pool_verdict(oom);
      break;
    case OomCause::deferred_frees:
      text = deferred_verdict(oom);
      break;
    case OomCause::growth:
      text = growth_verdict(oom);
      break;
    case OomCause::single_request:
      text = request_verdict(oom);
      break;
    case OomCause::fragmentation:
      text =
          fmt::format("fragmentation: {} in use and {} more would have fit, but not in one piece",
                      format_bytes(oom.in_use_bytes()), wanted);
      break;
    case OomCause::shortage:
      text = shortage_text(oom);
      break;
  }
  const std::string who = asker(oom, store);
  return (oom.is_proven() ? "" : "probably ") + text + (who.empty() ? "" : ", at " + who);
}

std::string oom_details(const OomReport& oom) {
  std::string text;
  if (oom.cause == OomCause::limit) text = details_of_limit(oom);
  if (oom.cause == OomCause::fragmentation) text = details_of_fragmentation(oom);
  if (oom.hoarded_blocks > 0) text = details_of_hoard(oom);
  for (const OomCause cause : oom.contributing) text += contribution_text(oom, cause);
  for (const OomDoubt doubt : oom.doubts) text += " " + doubt_text(oom, doubt);
  for (const OomDoubt doubt : oom.remedy_doubts) text += " " + doubt_text(oom, doubt);
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

std::string oom_facts(const OomReport& oom) {
  const std::string on_card =
      oom.device_free_bytes == kUnknownBytes
          ? ""
          : fmt::format("; the card had {} free", format_bytes(oom.device_free_bytes));
  return fmt::format("The pool held {}, {} of it in use; its largest free piece was {}{}.",
                     format_bytes(oom.memory.reserved_bytes), format_bytes(oom.in_use_bytes()),
                     format_bytes(oom.largest_free_bytes), on_card);
}

std::optional<std::string> fit_command(const OomReport& oom, const std::string& path) {
  const std::optional<std::uint64_t> mib = room_mib(oom);
  if (oom.cause == OomCause::larger_than_card || !mib || *mib == 0) return std::nullopt;
  // A run that was cut off does not show what fits; one with a smaller batch does.
  return fmt::format("gpumemprof advise {} --fit {}MiB",
                     oom.is_need_known ? quoted(path) : "SMALLER.gmp", *mib);
}

namespace {

// "Check the shape of the tensor at train.py:94: no setting makes room for it."
OomRemedy check_shape(const OomReport& oom, const Store& store) {
  const std::string who = asker(oom, store);
  return {fmt::format("Check the shape of the tensor{}: no setting makes room for it.",
                      who.empty() ? "" : " at " + who),
          ""};
}

}  // namespace

OomRemedy oom_remedy(const OomReport& oom, const Store& store, const std::string& path) {
  const std::string fit = fit_command(oom, path).value_or("");
  std::string make_fit = oom.is_need_known
                             ? "make the run fit:"
                             : "record a run with a smaller batch to its end and see what fits:";
  const std::string or_fit = fit.empty() ? "." : ", or " + make_fit;
  switch (oom.cause) {
    case OomCause::larger_than_card:
    case OomCause::single_request:
      return check_shape(oom, store);
    case OomCause::private_pool:
      return {
          "Delete graphs and pools that are no longer needed, capture fewer shapes, or let "
          "graphs share one pool (torch.cuda.graph_pool_handle).",
          ""};
    case OomCause::deferred_frees:
      return {
          "Wait for the other stream before this allocation, and keep record_stream and frees "
          "out of graph capture.",
          ""};
    case OomCause::growth:
      return {"Free what the steps keep: a list of losses that are not detached, outputs, a cache.",
              ""};
    case OomCause::limit:
      return {"Raise the limit (torch.cuda.set_per_process_memory_fraction)" + or_fit, fit};
    case OomCause::other_processes:
      return {"Stop the other processes (nvidia-smi lists them)" + or_fit, fit};
    case OomCause::outside_pool:
      return {
          "Find what allocates outside PyTorch (a library, NCCL, code that calls CUDA directly)" +
              or_fit,
          fit};
    case OomCause::fragmentation:
      if (oom.surviving_confs.empty()) break;
      return {"Set this before the program starts:",
              "export PYTORCH_CUDA_ALLOC_CONF=" + quoted(oom.surviving_confs.front())};
    case OomCause::shortage:
      if (oom.hoarded_blocks > 0)
        return {"Free what that line keeps alive, or move it to host memory.", ""};
      break;
  }
  if (fit.empty()) return {};
  make_fit.front() = oom.is_need_known ? 'M' : 'R';
  return {make_fit, fit};
}

}  // namespace gpumemprof::text
