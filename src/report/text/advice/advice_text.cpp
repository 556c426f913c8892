#include "report/text/advice/advice_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/advice/advice_page.h"
#include "report/text/overview/completeness_text.h"
#include "report/text/overview/growth_text.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kNameColumns = 23;
constexpr std::size_t kBandColumns = 19;
constexpr double kShown = 0.05;        // % of the peak: below it, a row would say 0.0 %
constexpr double kWorthNaming = 5;     // % of what is reserved
constexpr std::size_t kExplained = 2;  // remedies of each group that are shown with their code

constexpr std::array<RemedyCost, kRemedyCostCount> kCosts = {RemedyCost::free, RemedyCost::slower,
                                                             RemedyCost::changes_training};

std::string_view heading_of(RemedyCost cost, RunKind kind) {
  switch (cost) {
    case RemedyCost::free:
      return "Free: the same results, no slower";
    case RemedyCost::slower:
      return "Slower: the same results, more time";
    case RemedyCost::changes_training:
      break;
  }
  if (kind == RunKind::inference) return "Changes results: precision or sequences";
  return "Changes training: precision, optimizer, batch or sequences";
}

class AdviceWriter : private text::AdvicePage {
 public:
  AdviceWriter(const Advice& advice, const TextStyle& style)
      : AdvicePage(advice, style.width, style.has_color) {}

  std::string run(const Store& store, std::size_t width) {
    paragraph(
        fmt::format("{}: what each remedy would save in this run", text::file_name(advice_.path)),
        0);
    for (const std::string& sentence : text::missing_sentences(advice_.completeness))
      paragraph(sentence, 0);
    peak();
    if (!advice_.fit && advice_.partial.empty() && has_table()) paragraph(answer(), 0);
    if (!advice_.partial.empty())
      paragraph(advice_.partial + " Every figure is a lower bound: the whole run takes more.", 2);
    if (advice_.completed) {
      paragraph(fmt::format("{} The whole step would have peaked at {}{}.", advice_.completed->how,
                            format_bytes(advice_.completed->peak_allocated_bytes),
                            reserved(advice_.completed->peak_reserved_bytes)),
                2);
    }
    if (const std::string sentence = text::growth_sentence(advice_.growth, store);
        !sentence.empty())
      paragraph(sentence + " No remedy is computed for it: every figure includes it.", 2);
    if (advice_.fit) out_ += "\n" + text::fit_text(advice_, width);
    tables();
    if (advice_.partial.empty()) explanations();
    unpredicted();
    for (const std::string& sentence : advice_.missing) paragraph(sentence, 2);
    next_command();
    return std::move(out_);
  }

  std::string run_codes(const std::vector<std::string>& names) {
    for (const Remedy& remedy : advice_.remedies) {
      const bool is_asked =
          names.empty() || std::find(names.begin(), names.end(), remedy.name) != names.end();
      if (!is_asked) continue;
      if (!out_.empty()) out_ += "\n";
      explain(remedy);
    }
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
      case Phase::evaluation:
        return "in evaluation";
      case Phase::other:
        break;
    }
    return "outside training steps";
  }

  [[nodiscard]] std::string reserved(std::uint64_t bytes) const {
    return advice_.has_pool ? fmt::format(" allocated, {} reserved", format_bytes(bytes))
                            : std::string(" allocated");
  }

  void peak() {
    const std::string where = advice_.completed ? "" : ", " + phase(advice_.baseline.phase);
    line(bold(fmt::format("{}: peak {}{}{}", advice_.device_name,
                          format_bytes(advice_.peak_allocated_bytes),
                          reserved(advice_.peak_reserved_bytes), where)));
  }

  [[nodiscard]] std::uint64_t whole_bytes() const {
    return advice_.completed ? advice_.completed->peak_allocated_bytes
                             : advice_.peak_allocated_bytes;
  }

  [[nodiscard]] double saved_pct(const Remedy& remedy) const {
    if (whole_bytes() == 0) return 0;
    return 100.0 * static_cast<double>(remedy.saving_bytes) / static_cast<double>(whole_bytes());
  }

  std::string saving(const Remedy& remedy) const {
    if (whole_bytes() == 0) return "";
    return fmt::format("{:+.1f} %", -saved_pct(remedy));
  }

  // The one that saves most, of those up to this cost; nullptr if none saves anything.
  [[nodiscard]] const Remedy* best(RemedyCost most) const {
    const auto found = std::ranges::find_if(advice_.remedies, [&](const Remedy& remedy) {
      return remedy.peak_allocated && remedy.cost <= most && saved_pct(remedy) >= kShown;
    });
    return found == advice_.remedies.end() ? nullptr : &*found;
  }

  [[nodiscard]] std::string answer() const {
    const auto named = [&](const Remedy& remedy) { return remedy.name + " " + saving(remedy); };
    const Remedy* any = best(RemedyCost::changes_training);
    if (any == nullptr) return answer_without_saving();
    const Remedy* same = best(RemedyCost::slower);
    if (same == nullptr)
      return "Nothing lowers the peak without changing results; the most with it: " + named(*any) +
             ".";
    const Remedy* free = best(RemedyCost::free);
    if (free == same)
      return "The most without changing results or slowing down: " + named(*same) + ".";
    return fmt::format("The most without changing results: {}; without slowing down: {}.",
                       named(*same), free == nullptr ? "nothing" : named(*free));
  }

  // What is allocated may fit into fewer segments.
  [[nodiscard]] std::string answer_without_saving() const {
    std::string text = "None of these remedies lowers the peak";
    const auto less = std::ranges::find_if(advice_.remedies, [&](const Remedy& remedy) {
      return remedy.cost == RemedyCost::free && reserved_change_pct(remedy) <= -kWorthNaming;
    });
    if (less == advice_.remedies.end()) return text + ".";
    return fmt::format("{} of allocated bytes; {} lowers that of reserved ones to {}.", text,
                       less->name, format_bytes(less->peak_reserved->bytes));
  }

  // 0 where nothing is known.
  [[nodiscard]] double reserved_change_pct(const Remedy& remedy) const {
    const std::uint64_t before =
        advice_.completed ? advice_.completed->peak_reserved_bytes : advice_.peak_reserved_bytes;
    if (!remedy.peak_reserved || before == 0) return 0;
    const auto after = static_cast<double>(remedy.peak_reserved->bytes);
    return 100 * (after / static_cast<double>(before) - 1);
  }

  [[nodiscard]] bool has_table() const {
    return std::ranges::any_of(advice_.remedies, [](const Remedy& remedy) {
      return remedy.peak_allocated || remedy.at_least_bytes;
    });
  }

  // A row that would say 0.0 % helps nobody.
  [[nodiscard]] bool is_shown(const Remedy& remedy) const {
    if (!remedy.peak_allocated || std::abs(saved_pct(remedy)) >= kShown) return true;
    return std::abs(reserved_change_pct(remedy)) >= kShown;
  }

  void tables() {
    if (!has_table()) return;
    out_ += "\n";
    if (advice_.partial.empty()) {
      line(fmt::format("  {} {:>9} {:>8} {} {:>8} {:>6}", text::left("remedy", kNameColumns),
                       "allocated", "change", text::left("between", kBandColumns), "reserved",
                       "slower"));
    } else {
      line(fmt::format("  {} {:>9}", text::left("remedy", kNameColumns), "at least"));
    }
    for (const RemedyCost cost : kCosts) table(cost);
    left_out();
  }

  void left_out() {
    std::string names;
    std::size_t count = 0;
    for (const Remedy& remedy : advice_.remedies) {
      if (is_shown(remedy)) continue;
      ++count;
      names += (names.empty() ? "" : ", ") + remedy.name;
    }
    if (count > 0)
      paragraph(fmt::format("{} left out, which {} 0.0 % here: {}.",
                            text::counted(count, "remedy is", "remedies are"),
                            count == 1 ? "saves" : "save", names),
                2);
  }

  void table(RemedyCost cost) {
    bool has_heading = false;
    for (const Remedy& remedy : advice_.remedies) {
      const bool is_known = remedy.peak_allocated || remedy.at_least_bytes;
      if (remedy.cost != cost || !is_known || !is_shown(remedy)) continue;
      if (!has_heading) line(std::string(heading_of(cost, advice_.kind)));
      has_heading = true;
      row(remedy);
    }
  }

  void row(const Remedy& remedy) {
    if (remedy.at_least_bytes) {
      line(fmt::format("  {} {:>9}", text::left(remedy.name, kNameColumns),
                       format_bytes(*remedy.at_least_bytes)));
      return;
    }
    if (!remedy.peak_allocated) return;
    const PredictedBytes& bytes = *remedy.peak_allocated;
    line(fmt::format(
        "  {} {:>9} {:>8} {} {:>8} {:>6}", text::left(remedy.name, kNameColumns),
        format_bytes(bytes.bytes), saving(remedy),
        text::left(
            fmt::format("{} - {}", format_bytes(bytes.low_bytes), format_bytes(bytes.high_bytes)),
            kBandColumns),
        remedy.peak_reserved ? format_bytes(remedy.peak_reserved->bytes) : "-", slowdown(remedy)));
  }

  void explanations() {
    for (const RemedyCost cost : kCosts) {
      std::size_t shown = 0;
      for (const Remedy& remedy : advice_.remedies) {
        const auto saved = static_cast<double>(remedy.saving_bytes);
        const bool helps =
            remedy.peak_allocated && saved > 0.005 * static_cast<double>(whole_bytes());
        if (remedy.cost != cost || !helps || ++shown > kExplained) continue;
        out_ += "\n";
        explain(remedy);
      }
    }
  }

  void explain(const Remedy& remedy) {
    line(fmt::format("{}: {}", remedy.name, remedy.title));
    paragraph(remedy.why, 2);
    code_of(remedy.how, remedy.how_trainer);
  }

  // Those of one reason together.
  void unpredicted() {
    struct Reason {
      std::string why;
      std::string names;
      std::size_t count = 0;
    };
    std::vector<Reason> reasons;
    for (const Remedy& remedy : advice_.remedies) {
      if (remedy.peak_allocated || remedy.at_least_bytes) continue;
      auto same = std::ranges::find(reasons, remedy.why, &Reason::why);
      if (same == reasons.end()) same = reasons.insert(same, {remedy.why, "", 0});
      same->names += (same->names.empty() ? "" : ", ") + remedy.name;
      ++same->count;
    }
    if (!reasons.empty()) out_ += "\n";
    constexpr std::size_t kNamed = 5;
    for (const Reason& reason : reasons) {
      const std::string names =
          reason.count <= kNamed ? reason.names : text::counted(reason.count, "remedy", "remedies");
      paragraph(fmt::format("{}: {}", names, reason.why), 2);
    }
  }

  void next_command() {
    out_ += "\n";
    const std::string file = text::quoted(advice_.path);
    if (!advice_.partial.empty()) {
      line("Next: what holds the memory at the peak");
      line("  gpumemprof report " + file);
      return;
    }
    if (!has_table()) {
      line("Next: where the memory went");
      line("  gpumemprof report " + file);
      return;
    }
    if (advice_.fit) {
      line("Next: the code of one remedy, or of all of them");
      line(fmt::format("  gpumemprof advise {} --code all", file));
      return;
    }
    line("Next: the cheapest way to stay below a limit, or the code of a remedy");
    const std::uint64_t bytes = whole_bytes() * 6 / 10;
    const std::string limit = bytes < kMiB ? fmt::format("{}", std::max<std::uint64_t>(bytes, 1))
                                           : fmt::format("{}MiB", bytes / kMiB);
    line(fmt::format("  gpumemprof advise {} --fit {}", file, limit));
    line(fmt::format("  gpumemprof advise {} --code {}", file, code_example()));
  }

  // One that helps and is not already shown.
  [[nodiscard]] std::string code_example() const {
    std::size_t shown = 0;
    for (const Remedy& remedy : advice_.remedies) {
      if (remedy.cost == RemedyCost::slower && remedy.peak_allocated && ++shown > kExplained)
        return remedy.name;
    }
    return "all";
  }
};

}  // namespace

std::string advice_text(const Advice& advice, const Store& store, const TextStyle& style) {
  return printable_page(AdviceWriter(advice, style).run(store, style.width), style.has_color);
}

std::string advice_code_text(const Advice& advice, const std::vector<std::string>& names,
                             const TextStyle& style) {
  return printable_page(AdviceWriter(advice, style).run_codes(names), style.has_color);
}

}  // namespace gpumemprof
