#include "report/leaks/leaks_text.h"

#include <fmt/core.h>

#include <cmath>

#include "base/bytes.h"
#include "base/printable.h"
#include "report/leaks/leak_holders.h"
#include "report/leaks/leaks_sentence.h"
#include "report/text/overview/completeness_text.h"
#include "report/text/page.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<std::uint64_t>(std::llround(std::max(0.0, bytes))));
}

// "a step", "a call"
std::string each(const DeviceLeaks& device) {
  return "a " + std::string(repetition_name(device.repetition));
}

std::string count_text(double count) {
  const double whole = std::round(count);
  return std::abs(count - whole) < 0.05 ? fmt::format("{:.0f}", whole)
                                        : fmt::format("{:.1f}", count);
}

class LeaksWriter : private text::Page {
 public:
  LeaksWriter(const LeaksReport& report, const Store& store, const TextStyle& style)
      : Page(style.width, style.has_color), report_(report), store_(store), style_(style) {}

  std::string run() {
    for (const std::string& sentence : text::missing_sentences(report_.completeness))
      paragraph(sentence, 0);
    for (const DeviceLeaks& device : report_.devices) {
      const std::string verdict = device.name + ": " + text::leak_verdict_sentence(device, store_);
      if (device.verdict == LeakVerdict::leak)
        alarm(verdict);
      else
        headline(verdict);
      for (const std::string& note : device.notes) paragraph(note, 2);
      const std::size_t shown = std::min(device.leaks.size(), style_.top);
      for (std::size_t index = 0; index < shown; ++index) leak(device, device.leaks[index]);
      if (shown < device.leaks.size())
        paragraph(fmt::format("… and {} (--json lists all).",
                              text::counted(device.leaks.size() - shown, "more line")),
                  2);
      if (device.suppressed > 0)
        paragraph(text::counted(device.suppressed, "growing line is", "growing lines are") +
                      " suppressed.",
                  2);
    }
    if (report_.devices.empty()) line("The recording holds no device.");
    line("\nNext: " + next());
    return std::move(out_);
  }

 private:
  void leak(const DeviceLeaks& device, const LeakSite& leak) {
    FrameId frame;
    if (!leak.stack.is_none()) frame = store_.stacks().frame(leak.stack);
    line("");
    paragraph((leak.is_backward ? "the backward of " : "") +
                  (frame.is_none() ? std::string("code without a recorded stack")
                                   : text::place(store_, frame, style_.width - 4)),
              2);
    std::string rate = leak.bytes_per_step > 0
                           ? bytes_text(leak.bytes_per_step) + " " + each(device)
                           : "freed only by the garbage collector";
    if (leak.blocks_per_step > 0 && leak.bytes_per_step > 0)
      rate += fmt::format(" in {} {}", count_text(leak.blocks_per_step),
                          count_text(leak.blocks_per_step) == "1" ? "block" : "blocks");
    paragraph(fmt::format("{}, since {} {}; {} in {} at the end, the oldest {} old", rate,
                          repetition_name(device.repetition), leak.first_step,
                          format_bytes(leak.bytes), text::counted(leak.blocks, "block"),
                          text::counted(leak.oldest_age_steps, repetition_name(device.repetition),
                                        std::string(repetition_name(device.repetition)) + "s")),
              4);
    paragraph(what(leak), 4);
    const LeakHolder holder = leak_holder(store_, frame, leak.is_backward);
    if (!holder.text.empty()) paragraph("held by " + printable(holder.text), 4);
    paragraph(advice_with_holder(leak.advice, holder), 4);
    if (!leak.doubt.empty()) paragraph("Doubt: " + leak.doubt, 4);
  }

  [[nodiscard]] std::string what(const LeakSite& leak) const {
    std::string text =
        fmt::format("what it is: {} ({})", memory_source_info(leak.source).display_name,
                    provenance_name(leak.source_provenance));
    if (!store_.text(leak.module).empty())
      text += ", module " + printable(std::string(store_.text(leak.module)));
    if (!store_.text(leak.tag).empty())
      text += ", tag " + printable(std::string(store_.text(leak.tag)));
    return text;
  }

  [[nodiscard]] std::string next() const {
    const std::string file = text::quoted(report_.path);
    const DeviceLeaks* worst = report_.worst();
    if (worst != nullptr && worst->verdict == LeakVerdict::too_short)
      return "record more steps, then\n  gpumemprof leaks " + file;
    return "where the memory went\n  gpumemprof report " + file;
  }

  const LeaksReport& report_;
  const Store& store_;
  const TextStyle& style_;
};

}  // namespace

std::string leaks_text(const LeaksReport& report, const Store& store, const TextStyle& style) {
  return LeaksWriter(report, store, style).run();
}

}  // namespace gpumemprof
