#include "report/text/advice_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/completeness_text.h"
#include "report/text/page.h"
#include "report/text/phrases.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kNameColumns = 23;
constexpr std::size_t kBandColumns = 19;
constexpr std::size_t kExplained = 5;  // remedies that are shown with the code to change

class Writer : private text::Page {
 public:
  Writer(const Advice& advice, const TextStyle& style)
      : Page(style.width), advice_(advice), style_(style) {}

  std::string run() {
    paragraph(
        fmt::format("{}: what each remedy would make of this run", text::file_name(advice_.path)),
        0);
    for (const std::string& sentence : text::missing_sentences(advice_.completeness))
      paragraph(sentence, 0);
    line(fmt::format("{}: peak {} allocated, {} reserved, {}", advice_.device_name,
                     format_bytes(advice_.peak_allocated_bytes),
                     format_bytes(advice_.peak_reserved_bytes), phase(advice_.baseline.phase)));
    if (advice_.fit) fit(*advice_.fit);
    table();
    explanations();
    unpredicted();
    for (const std::string& sentence : advice_.missing) paragraph(sentence, 2);
    next_command();
    return std::move(out_);
  }

 private:
  static std::string phase(Phase phase) {
    switch (phase) {
      case Phase::forward:
        return "in forward";
      case Phase::backward:
        return "in backward";
      case Phase::optimizer_step:
        return "in the optimizer's step";
      case Phase::other:
        break;
    }
    return "outside training steps";
  }

  static std::string band(const PredictedBytes& bytes) {
    return fmt::format("{} ({} to {})", format_bytes(bytes.bytes), format_bytes(bytes.low_bytes),
                       format_bytes(bytes.high_bytes));
  }

  std::string saving(const Remedy& remedy) const {
    if (advice_.peak_allocated_bytes == 0) return "";
    const double share = 100.0 * static_cast<double>(remedy.saving_bytes) /
                         static_cast<double>(advice_.peak_allocated_bytes);
    return fmt::format("{:+.1f} %", -share);
  }

  static std::string slowdown(const Remedy& remedy) {
    if (!remedy.slowdown_pct) return "?";
    return fmt::format("{}{:.0f} %", remedy.is_slowdown_measured ? "" : "~", *remedy.slowdown_pct);
  }

  void table() {
    out_ += "\n";
    line(fmt::format("  {} {:>9} {:>8} {} {:>8} {:>6}", text::left("remedy", kNameColumns),
                     "allocated", "change", text::left("between", kBandColumns), "reserved",
                     "slower"));
    for (const Remedy& remedy : advice_.remedies) {
      if (!remedy.peak_allocated) continue;
      const PredictedBytes& bytes = *remedy.peak_allocated;
      line(fmt::format("  {} {:>9} {:>8} {} {:>8} {:>6}", text::left(remedy.name, kNameColumns),
                       format_bytes(bytes.bytes), saving(remedy),
                       text::left(fmt::format("{} - {}", format_bytes(bytes.low_bytes),
                                              format_bytes(bytes.high_bytes)),
                                  kBandColumns),
                       remedy.peak_reserved ? format_bytes(remedy.peak_reserved->bytes) : "-",
                       slowdown(remedy)));
    }
  }

  void explanations() {
    std::size_t shown = 0;
    for (const Remedy& remedy : advice_.remedies) {
      const auto saved = static_cast<double>(remedy.saving_bytes);
      const bool helps = remedy.peak_allocated &&
                         saved > 0.005 * static_cast<double>(advice_.peak_allocated_bytes);
      if (!helps || ++shown > kExplained) continue;
      out_ += "\n";
      line(fmt::format("{}: {}", remedy.name, remedy.title));
      paragraph(remedy.why, 2);
      code(remedy.how);
      if (!remedy.how_trainer.empty()) code(remedy.how_trainer);
    }
    if (shown == 0) {
      out_ += "\n";
      line("None of them lowers the peak of this run.");
    }
  }

  void code(const std::string& text) {
    std::size_t from = 0;
    while (from <= text.size()) {
      const std::size_t end = std::min(text.find('\n', from), text.size());
      line("    " + text.substr(from, end - from));
      from = end + 1;
    }
  }

  void unpredicted() {
    bool is_first = true;
    for (const Remedy& remedy : advice_.remedies) {
      if (remedy.peak_allocated) continue;
      if (is_first) out_ += "\n";
      is_first = false;
      paragraph(fmt::format("{}: {}", remedy.name, remedy.why), 2);
    }
  }

  void fit(const FitPlan& plan) {
    out_ += "\n";
    const std::string limit = format_bytes(plan.limit_bytes);
    if (!plan.is_found) {
      paragraph(fmt::format("No set of these remedies keeps the run below {}.", limit), 0);
      return;
    }
    if (plan.fits_already) {
      paragraph(fmt::format("The run fits into {} as it is.", limit), 0);
    } else {
      paragraph(fmt::format("To run in {}: {}", limit, names_of(plan.set)), 0);
    }
    paragraph(
        fmt::format(
            "Predicted peak: {} allocated{}{}.", band(plan.set.peak_allocated),
            plan.set.peak_reserved ? fmt::format(", {} reserved", band(*plan.set.peak_reserved))
                                   : std::string(),
            plan.set.slowdown_pct ? fmt::format("; {} slower", slowdown(plan.set)) : std::string()),
        2);
    paragraph(largest_words(plan), 2);
    if (plan.set.checkpointed && plan.set.checkpointed->which.size() < plan.set.checkpointed->of)
      code(plan.set.checkpointed->how);
    if (!plan.alternatives.empty()) alternatives(plan);
  }

  static std::string names_of(const RemedySet& set) {
    std::string names;
    for (const std::string& name : set.names) {
      names += (names.empty() ? "" : " + ") + name;
      if (name == "checkpointing" && set.checkpointed)
        names += fmt::format(" of {} of {} blocks", set.checkpointed->which.size(),
                             set.checkpointed->of);
    }
    return names;
  }

  static std::string slowdown(const RemedySet& set) {
    if (!set.slowdown_pct) return "?";
    return fmt::format("{}{:.0f} %", set.is_slowdown_measured ? "" : "~", *set.slowdown_pct);
  }

  static std::string largest_words(const FitPlan& plan) {
    const auto counted = [](const std::optional<std::uint64_t>& count, std::string_view unit) {
      return count ? fmt::format(", {} {}", *count, unit) : std::string();
    };
    std::string text =
        fmt::format("The largest batch that then fits: {:.2f} times the recorded one{}.",
                    plan.largest_batch_factor, counted(plan.largest_batch, "samples"));
    if (plan.largest_sequence_factor)
      text += fmt::format(" Or the longest sequence: {:.2f} times{}.",
                          *plan.largest_sequence_factor, counted(plan.largest_sequence, "tokens"));
    return text;
  }

  void alternatives(const FitPlan& plan) {
    line("  Alternatives (more expensive):");
    for (const RemedySet& set : plan.alternatives) {
      paragraph(
          fmt::format("{}: {}{}", names_of(set), band(set.peak_allocated),
                      set.slowdown_pct ? fmt::format(", {} slower", slowdown(set)) : std::string()),
          4);
    }
  }

  void next_command() {
    out_ += "\n";
    const std::string file = text::quoted(advice_.path);
    if (advice_.fit) {
      line("Next: what holds the memory at the peak");
      line("  gpumemprof report " + file);
    } else {
      line("Next: the cheapest way under a limit");
      const std::uint64_t bytes = advice_.peak_allocated_bytes * 6 / 10;
      const std::string limit = bytes < kMiB ? fmt::format("{}", std::max<std::uint64_t>(bytes, 1))
                                             : fmt::format("{}MiB", bytes / kMiB);
      line(fmt::format("  gpumemprof advise {} --fit {}", file, limit));
    }
  }

  const Advice& advice_;
  const TextStyle& style_;
};

}  // namespace

std::string advice_text(const Advice& advice, const TextStyle& style) {
  return printable_page(Writer(advice, style).run(), style.has_color);
}

}  // namespace gpumemprof
