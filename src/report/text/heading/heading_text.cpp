#include "report/text/heading/heading_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/printable.h"
#include "event/foreign/foreign_file.h"
#include "event/native_module.h"
#include "report/text/overview/completeness_text.h"
#include "report/text/page.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

constexpr int kMostDevices = 64;
// What reasons for the end of a recording begin with: "exception: ValueError", "signal SIGTERM".
constexpr std::string_view kEndedByException = "exception: ";
constexpr std::string_view kEndedBySignal = "signal ";

class HeadingWriter : private Page {
 public:
  HeadingWriter(const Overview& overview, const Store& store, std::size_t width)
      : Page(width), overview_(overview), store_(store) {}

  std::string run() {
    const std::string name = file_name(overview_.path);
    paragraph(
        fmt::format("{}: {}, {}", name, recording_kind(store_.origin().kind), what_is_counted()),
        0);
    if (store_.origin().kind == kPredictedRun) prediction();
    how_it_ended();
    for (const std::string& sentence : missing_sentences(overview_.completeness))
      paragraph(sentence, 0);
    if (store_.origin().cut) incomplete(*store_.origin().cut);
    sentences_of(kLimitsFact);
    sentences_of(kNativeSymbolsFact);
    if (overview_.devices.empty() && !counted_peaks()) line("It contains no memory of any device.");
    return std::move(out_);
  }

 private:
  // Nothing of a program that ended by itself.
  void how_it_ended() {
    const Completeness& found = overview_.completeness;
    if (!found.is_recording || !found.is_closed) return;
    const std::string_view reason = found.reason;
    const ProcessFacts& process = store_.facts().process();
    const bool is_signal = reason.starts_with(kEndedBySignal);
    if (reason.starts_with(kEndedByException) || (is_signal && !process.failure_type.empty())) {
      const std::string_view type =
          is_signal ? process.failure_type : reason.substr(kEndedByException.size());
      const std::string& place = process.failure_place;
      const std::string_view by = is_signal ? reason.substr(kEndedBySignal.size()) : "";
      paragraph(fmt::format("It ended by an exception: {}{}{}{}{}.", printable(type),
                            place.empty() ? "" : ", raised at ", printable(place),
                            is_signal ? "; while it ended, it was killed by " : "", printable(by)),
                0);
    } else if (is_signal) {
      paragraph(fmt::format("The program was killed by {}.",
                            printable(reason.substr(kEndedBySignal.size()))),
                0);
    }
  }

  void incomplete(const CutPoint& cut) {
    if (!store_.origin().chapters.empty()) {
      paragraph(fmt::format("The recording is incomplete: {}. The figures cover the rest of it.",
                            cut.reason),
                0);
      return;
    }
    paragraph(
        fmt::format("The file is incomplete: at byte {}, {}. The figures cover what came before.",
                    grouped(cut.byte_offset), cut.reason),
        0);
  }

  // What a fact says, a sentence on each line: what another tool's file lacks, or what could not be
  // found out about native frames.
  void sentences_of(std::string_view fact) {
    for (const auto& [key, notes] : store_.origin().facts) {
      if (key != fact) continue;
      for (std::size_t at = 0; at < notes.size();) {
        const std::size_t end = std::min(notes.find('\n', at), notes.size());
        paragraph(printable(notes.substr(at, end - at)) + ".", 0);
        at = end + 1;
      }
    }
  }

  void prediction() {
    const std::string& card = store_.facts().device(0).name;
    paragraph(fmt::format("Predicted for {}, not measured: the program ran without a GPU.",
                          card.empty() ? "a GPU" : printable(card)),
              0);
  }

  // Allocations and frees, as people count them: a free alone makes two events.
  [[nodiscard]] std::string what_is_counted() const {
    if (overview_.events == 0) {
      const bool is_known = std::ranges::any_of(
          overview_.devices,
          [](const DeviceOverview& device) { return device.replay.has_history; });
      return is_known ? "no event" : "no history";
    }
    if (overview_.allocations + overview_.frees == 0) return counted(overview_.events, "event");
    return fmt::format("{}, {}", counted(overview_.allocations, "allocation"),
                       counted(overview_.frees, "free"));
  }

  // Where no events could be recorded, torch's own peaks may still be known.
  bool counted_peaks() {
    bool has_any = false;
    for (DeviceIndex device = 0; device < kMostDevices; ++device) {
      const DeviceFacts& facts = store_.facts().device(device);
      if (!facts.peak_allocated_bytes || !facts.peak_reserved_bytes) break;
      if (!has_any)
        paragraph("Allocator events could not be recorded; torch's own counters report:", 0);
      line(fmt::format("  cuda:{}  peak {} allocated, {} reserved", device,
                       format_bytes(*facts.peak_allocated_bytes),
                       format_bytes(*facts.peak_reserved_bytes)));
      has_any = true;
    }
    return has_any;
  }

  const Overview& overview_;
  const Store& store_;
};

}  // namespace

std::string heading_text(const Overview& overview, const Store& store, std::size_t width) {
  return HeadingWriter(overview, store, width).run();
}

std::string recording_kind(std::string_view kind) {
  if (kind == "torch_snapshot") return "PyTorch memory snapshot";
  if (kind == kTraceOfProfiler) return "trace of torch.profiler";
  if (kind == kProfileOfJax) return "device memory profile of JAX";
  if (kind == kPredictedRun) return "predicted run";
  return kind == kSimulatedRun ? "simulated run" : "recording";
}

std::string when_text(const When& when, std::uint64_t events, const Store& store) {
  if (when.event == kNoEvent) return "before the recording began";
  std::string text = fmt::format("at event {} of {}", grouped(when.event), grouped(events));
  // How long a prediction took says nothing about the run.
  if (when.since_start_ns != kUnknownTime && store.origin().kind != kPredictedRun)
    text += fmt::format(", {} in", duration(when.since_start_ns));
  if (when.step)
    text += *when.step == 0 ? ", before step 1" : fmt::format(", step {}", grouped(*when.step));
  if (!when.annotation.is_none())
    text += fmt::format(", inside {}", printable(store.text(when.annotation)));
  return text;
}

std::string asked_text(const DeviceOverview& device) {
  switch (device.asked.kind) {
    case AskedMoment::Kind::peak:
      return "at the peak";
    case AskedMoment::Kind::end:
      return device.replay.has_end ? "at the end" : "where the file ends";
    case AskedMoment::Kind::step:
      return fmt::format("at step {}'s peak", grouped(device.asked.step));
    case AskedMoment::Kind::event:
      break;
  }
  return fmt::format("after event {}", grouped(device.asked.event));
}

}  // namespace gpumemprof::text
