#include "report/text/failure/failure_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "analysis/code/user_frame.h"
#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/overview/growth_text.h"
#include "report/text/overview/oom_text.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

constexpr std::size_t kSourcesShown = 5;
constexpr std::size_t kLinesShown = 5;
constexpr std::size_t kGrownShown = 3;
constexpr std::size_t kIndent = 2;

// Of "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."
std::optional<std::uint64_t> wanted_bytes(std::string_view error) {
  constexpr std::string_view kBefore = "you tried to allocate ";
  const std::size_t at = error.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = error.substr(at + kBefore.size());
  std::uint64_t bytes = 0;
  const auto [end, mistake] = std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
  return mistake == std::errc() ? std::optional(bytes) : std::nullopt;
}

class FailurePage {
 public:
  FailurePage(const Failure& failure, const Store& store, const std::string& path,
              const std::string& error, std::size_t width)
      : failure_(failure), store_(store), path_(path), error_(error), width_(width) {}

  FailureText write() {
    FailureText text;
    cause();
    holders();
    remedy();
    text.note = without_last_break(out_);
    out_.clear();
    cause();
    moment();
    holders();
    lines();
    tensors();
    news();
    if (const std::string growth = growth_text(); !growth.empty()) paragraph(growth);
    counterfactual();
    remedy();
    out_ += "  Next: gpumemprof report " + quoted(path_) + "\n";  // to be copied: not wrapped
    text.page = without_last_break(out_);
    return text;
  }

 private:
  static std::string without_last_break(std::string text) {
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }

  void paragraph(const std::string& text) {
    out_ += std::string(kIndent, ' ') + wrapped(text, width_, kIndent + 2) + "\n";
  }

  [[nodiscard]] std::string subject() const {
    const std::optional<std::uint64_t> rank = store_.facts().process().rank;
    return "gpumemprof: " + (rank ? fmt::format("rank {}: ", *rank) : "") + failure_.device_name;
  }

  void cause() {
    if (!failure_.oom) return foreign_cause();
    const OomReport& oom = *failure_.oom;
    out_ += wrapped(fmt::format("{} ran out of memory: {}.", subject(), oom_verdict(oom, store_)),
                    width_, kIndent) +
            "\n";
    if (const std::string details = oom_details(oom); !details.empty()) paragraph(details);
    paragraph(oom_facts(oom));
  }

  // The driver or a library could not allocate: what the pool keeps is not available to them.
  void foreign_cause() {
    const std::optional<std::uint64_t> wanted = wanted_bytes(error_);
    if (wanted && !store_.facts().has_pool()) return host_cause(*wanted);
    const FreeMemory& memory = failure_.memory;
    out_ += wrapped(fmt::format("{}: memory outside PyTorch's allocator ran out: {}", subject(),
                                printable(error_)),
                    width_, kIndent) +
            "\n";
    std::string text = fmt::format("At the last recorded event the pool held {}, {} of it in use",
                                   format_bytes(memory.reserved_bytes),
                                   format_bytes(memory.allocated_bytes + memory.waiting_bytes));
    if (const std::optional<CardUsage>& card = failure_.card_usage; card && card->free_bytes) {
      text +=
          fmt::format("; at the last sample the card had {} free", format_bytes(*card->free_bytes));
      if (card->outside_bytes)
        text += fmt::format(", this process held {} outside the pool",
                            format_bytes(*card->outside_bytes));
      if (card->other_processes_bytes)
        text += fmt::format(", other processes {}", format_bytes(*card->other_processes_bytes));
    }
    paragraph(text + ".");
    if (memory.whole_segment_bytes > 0) {
      paragraph(
          fmt::format("{} of the pool is cached and unused; libraries cannot use it until "
                      "torch.cuda.empty_cache() returns it.",
                      format_bytes(memory.whole_segment_bytes)));
    }
  }

  // PyTorch's allocator of CPU memory asks the system for each tensor and keeps nothing.
  void host_cause(std::uint64_t wanted) {
    std::string text = fmt::format("{}: out of memory: the system refused a request of {}",
                                   subject(), format_bytes(wanted));
    if (const auto total = store_.facts().process().host_total_bytes)
      text += fmt::format("; this machine has {}", format_bytes(*total));
    out_ += wrapped(text + ".", width_, kIndent) + "\n";
    paragraph(fmt::format("At the last recorded event tensors held {}.",
                          format_bytes(failure_.memory.allocated_bytes)));
  }

  void moment() {
    const When& when = failure_.when;
    std::string text;
    if (when.step) text = *when.step == 0 ? "before step 1" : "step " + grouped(*when.step);
    if (when.phase && *when.phase != Phase::other) {
      std::string phase(phase_name(*when.phase));
      std::ranges::replace(phase, '_', ' ');
      text += (text.empty() ? "" : ", ") + phase;
    }
    if (when.since_start_ns != kUnknownTime)
      text += (text.empty() ? "" : ", ") + duration(when.since_start_ns) + " in";
    if (failure_.ooms > 1)
      text += fmt::format("; it is failure {} of this run", grouped(failure_.ooms));
    if (!text.empty()) paragraph("When: " + text + ".");
  }

  void holders() {
    std::vector<std::pair<std::uint64_t, std::string_view>> held;
    for (const MemorySourceInfo& info : kMemorySourceTable) {
      const std::uint64_t bytes = failure_.sources[info.source];
      if (bytes > 0) held.emplace_back(bytes, info.display_name);
    }
    if (held.empty()) return;
    std::ranges::stable_sort(held, [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text;
    for (std::size_t index = 0; index < std::min(held.size(), kSourcesShown); ++index) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_bytes(held[index].first),
                          held[index].second);
    }
    paragraph("In use: " + text + (held.size() > kSourcesShown ? ", …" : "") + ".");
  }

  [[nodiscard]] std::string name_of(const LivePlace& line) const {
    if (line.frame.is_none()) return "no stack was recorded";
    const std::string prefix = line.is_backward ? "backward of " : "";
    return prefix + place(store_, line.frame, width_ - 14 - prefix.size());
  }

  void lines() {
    if (failure_.lines.empty()) return;
    paragraph("Most of it, by line of your code:");
    for (std::size_t index = 0; index < std::min(failure_.lines.size(), kLinesShown); ++index) {
      const LivePlace& line = failure_.lines[index].line;
      out_ += fmt::format("    {}  {}\n", right(format_bytes(line.bytes), 8), name_of(line));
    }
  }

  void tensors() {
    std::string text;
    for (const HeldTensor& tensor : failure_.largest) {
      const std::string count = tensor.count == 1 ? "" : grouped(tensor.count) + " × ";
      text += fmt::format("{}{}{} {}", text.empty() ? "" : "; ", count, format_bytes(tensor.bytes),
                          name_of(tensor));
    }
    if (!text.empty()) paragraph("Largest tensors: " + text + ".");
  }

  [[nodiscard]] std::string name_of(const HeldTensor& tensor) const {
    if (!tensor.name.is_none() && !store_.text(tensor.name).empty())
      return printable(store_.text(tensor.name));
    if (tensor.stack.is_none()) return "without a name";
    return "at " + place(store_, store_.stacks().frame(user_part(store_, tensor.stack)));
  }

  void news() {
    if (!failure_.before) return;
    const FittingStep& before = *failure_.before;
    const std::string fitted = fmt::format("step {}, which fitted with a peak of {}",
                                           grouped(before.step), format_bytes(before.peak_bytes));
    if (before.grown.empty()) {
      paragraph(fmt::format("No line holds more than at the peak of {}.", fitted));
      return;
    }
    paragraph(fmt::format("More than at the peak of {}:", fitted));
    for (std::size_t index = 0; index < std::min(before.grown.size(), kGrownShown); ++index) {
      const GrownLine& grown = before.grown[index];
      out_ += fmt::format("    {}  {}\n", right("+" + format_bytes(grown.added_bytes), 9),
                          name_of(grown.line));
    }
  }

  [[nodiscard]] std::string growth_text() const {
    const std::optional<DeviceLeaks>& leaks = failure_.leaks;
    if (!leaks || leaks->verdict != LeakVerdict::leak)
      return growth_sentence(failure_.growth, store_);
    return growth_verdict(failure_.growth, leaks, store_);
  }

  void counterfactual() {
    if (!failure_.oom) return;
    const OomReport& oom = *failure_.oom;
    const bool is_short = oom.short_bytes && oom.short_bytes->low > 0;
    if (is_short && oom.cause != OomCause::deferred_frees) {
      paragraph(fmt::format("Under any allocator setting: {}{} short, even with all gaps joined{}.",
                            oom.short_bytes->is_exact() ? "" : "at least ",
                            format_bytes(oom.short_bytes->low),
                            oom.is_proven() ? "" : " (probably)"));
    }
  }

  void remedy() {
    if (!failure_.oom) return;
    const OomRemedy remedy = oom_remedy(*failure_.oom, store_, path_);
    if (!remedy.sentence.empty()) paragraph(remedy.sentence);
    if (!remedy.command.empty()) out_ += "    " + remedy.command + "\n";
  }

  const Failure& failure_;
  const Store& store_;
  const std::string& path_;
  const std::string& error_;
  std::size_t width_;
  std::string out_;
};

}  // namespace

FailureText failure_text(const Failure& failure, const Store& store, const std::string& path,
                         const std::string& error, std::size_t width) {
  return FailurePage(failure, store, path, error, width).write();
}

std::string cheapest_remedy(const Advice& advice, std::size_t width) {
  if (!advice.fit || !advice.fit->is_found || advice.fit->fits_already) return "";
  const RemedySet& set = advice.fit->set;
  std::string names;
  for (const std::string& name : set.names) names += (names.empty() ? "" : " + ") + name;
  if (set.checkpointed && !set.checkpointed->which.empty()) {
    names += fmt::format(" ({} of {})", set.checkpointed->which.size(),
                         counted(set.checkpointed->of, "block"));
  }
  const PredictedBytes& peak = set.peak_reserved ? *set.peak_reserved : set.peak_allocated;
  std::string text =
      fmt::format("Cheapest remedy that fits (predicted): {}, peak {} {}", names,
                  format_bytes(peak.bytes), set.peak_reserved ? "reserved" : "allocated");
  if (set.slowdown_pct) text += fmt::format(", {:.0f} % slower", *set.slowdown_pct);
  return std::string(kIndent, ' ') + wrapped(text + ".", width, kIndent + 2);
}

}  // namespace gpumemprof::text
