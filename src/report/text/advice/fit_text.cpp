#include "base/printable.h"
#include "report/text/advice/advice_page.h"

namespace gpumemprof::text {
namespace {

class FitWriter : private AdvicePage {
 public:
  FitWriter(const Advice& advice, std::size_t width) : AdvicePage(advice, width) {}

  std::string run(const FitPlan& plan) {
    const std::string limit = format_bytes(plan.limit_bytes);
    if (!plan.refusal.empty()) {
      paragraph(fmt::format("This recording does not show what would fit into {}. {}", limit,
                            plan.refusal),
                0);
      return std::move(out_);
    }
    if (!plan.is_found) {
      nothing_fits(plan, limit);
      return std::move(out_);
    }
    paragraph(plan.fits_already ? fmt::format("The run fits into {} as it is.", limit)
                                : fmt::format("To run in {}: {}", limit, names_of(plan.set)),
              0);
    peaks(plan.set);
    blocks(plan.set);
    paragraph(largest_words(plan), 2);
    if (advice_.growth.is_growing) outgrowing();
    codes(plan.set);
    if (!plan.alternatives.empty()) alternatives(plan);
    return std::move(out_);
  }

 private:
  void nothing_fits(const FitPlan& plan, const std::string& limit) {
    std::string text = fmt::format("No set of these remedies keeps the run below {}.", limit);
    if (plan.least)
      text += fmt::format(" {} comes nearest: it would fit into {}.",
                          plan.least->names.empty() ? "The run as it is" : names_of(*plan.least),
                          format_bytes(plan.least_limit_bytes));
    paragraph(text, 0);
    if (!plan.least) return;
    peaks(*plan.least);
    blocks(*plan.least);
    codes(*plan.least);
  }

  void peaks(const RemedySet& set) {
    paragraph(
        fmt::format("Predicted peak: {} allocated{}{}.", band(set.peak_allocated),
                    set.peak_reserved ? fmt::format(", {} reserved", band(*set.peak_reserved))
                                      : std::string(),
                    set.slowdown_pct ? fmt::format("; {} slower", slowdown(set)) : std::string()),
        2);
  }

  // Which blocks are checkpointed, by the names of their modules.
  void blocks(const RemedySet& set) {
    if (!set.checkpointed || set.checkpointed->modules.empty()) return;
    const CheckpointedBlocks& blocks = *set.checkpointed;
    if (blocks.which.size() == blocks.of && blocks.of > 1) {
      paragraph(fmt::format("Checkpointed: {} to {}, each block.",
                            printable(blocks.modules.front()), printable(blocks.modules.back())),
                2);
      return;
    }
    std::string names;
    for (const std::string& module : blocks.modules)
      names += (names.empty() ? "" : ", ") + printable(module);
    paragraph(fmt::format("Checkpointed: {}.", names), 2);
  }

  void outgrowing() {
    paragraph(
        "This is true for the recorded steps only: memory grows from step to step, so a longer run "
        "needs more.",
        2);
  }

  void codes(const RemedySet& set) {
    for (const RemedyCode& entry : set.code) {
      if (set.code.size() > 1) line(fmt::format("  {}:", entry.name));
      code_of(entry.how, entry.how_trainer);
    }
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

  // Two digits behind the point of a large factor would claim what nobody knows.
  static std::string factor_text(double factor) {
    return factor < 10 ? fmt::format("{:.2f}", factor) : fmt::format("{:.0f}", factor);
  }

  static std::string largest_words(const FitPlan& plan) {
    const auto counted = [](const std::optional<std::uint64_t>& count, std::string_view unit) {
      return count ? fmt::format(", {} {}", *count, unit) : std::string();
    };
    std::string text =
        fmt::format("The largest batch that fits then: {} times the recorded one{}.",
                    factor_text(plan.largest_batch_factor), counted(plan.largest_batch, "samples"));
    if (plan.largest_sequence_factor)
      text += fmt::format(" Or the longest sequence: {} times{}.",
                          factor_text(*plan.largest_sequence_factor),
                          counted(plan.largest_sequence, "tokens"));
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
};

}  // namespace

std::string fit_text(const Advice& advice, std::size_t width) {
  return advice.fit ? FitWriter(advice, width).run(*advice.fit) : std::string();
}

}  // namespace gpumemprof::text
