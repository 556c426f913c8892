#include "report/text/overview/completeness_text.h"

#include <fmt/core.h>

#include "base/bytes.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

// "1,496,450 of 9,600,000 events", as far as it is known.
std::string lost_of_made(const Completeness& found) {
  if (found.made && found.lost) {
    return fmt::format(
        "{} of {} ({}, {})", grouped(found.lost->total()), counted(found.made->total(), "event"),
        counted(found.lost->allocations, "allocation"), counted(found.lost->frees, "free"));
  }
  return fmt::format("At least {}", counted(found.least_lost, "event"));
}

std::string what_it_means(const Completeness& found) {
  if (found.exact_until_ns == kUnknownTime) return "Figures are estimates.";
  if (found.exact_until_ns == 0) return "All figures are estimates.";
  return fmt::format("Figures after {} are estimates.", duration(found.exact_until_ns));
}

std::string were(std::uint64_t count) { return count == 1 ? "was" : "were"; }

std::string host_memory_sentence(const Completeness& found) {
  return fmt::format(
      "When last seen, only {} of {} main memory were available, and this process held {}: the "
      "kernel may have ended it (dmesg or journalctl -k says \"Out of memory: Killed process\").",
      format_bytes(*found.host_available_bytes), format_bytes(*found.host_total_bytes),
      format_bytes(found.host_resident_bytes.value_or(0)));
}

// "1–3, 8, 21–25"
std::string ranges(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t index = 0; index < numbers.size();) {
    std::size_t last = index;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[index]);
    if (last > index) text += fmt::format("{}{}", last == index + 1 ? ", " : "–", numbers[last]);
    index = last + 1;
  }
  return text;
}

// The highest peak of all chapters that have figures; null if none has.
const ChapterFigures* highest(const std::vector<ChapterFigures>& chapters, std::uint64_t& bytes) {
  const ChapterFigures* found = nullptr;
  for (const ChapterFigures& chapter : chapters) {
    for (const ChapterFigures::Device& device : chapter.devices) {
      if (found != nullptr && device.peak_allocated_bytes <= bytes) continue;
      found = &chapter;
      bytes = device.peak_allocated_bytes;
    }
  }
  return found;
}

std::string kept_sentence(const Completeness& found) {
  std::vector<std::uint32_t> kept;
  for (const ChapterFigures& chapter : found.chapters) {
    if (chapter.is_kept) kept.push_back(chapter.number);
  }
  const std::uint32_t last = found.chapters.empty() ? 0 : found.chapters.back().number;
  std::string text = fmt::format(
      "Of {} chapters, {} {} in full detail ({}); the rest ({}) {} only summarised, and figures "
      "are exact outside of it.",
      grouped(last), ranges(kept), kept.size() == 1 ? "is" : "are",
      counted(found.recorded.total(), "event"), counted(found.summarised.total(), "event"),
      found.summarised.total() == 1 ? "is" : "are");
  std::uint64_t bytes = 0;
  if (const ChapterFigures* peak = highest(found.chapters, bytes); peak != nullptr) {
    text += peak->is_kept
                ? " The highest peak of the whole run is in the part in full detail."
                : fmt::format(
                      " The highest peak of the whole run, {}, was in chapter {}, of which "
                      "only the summary is left.",
                      format_bytes(bytes), peak->number);
  }
  return text;
}

std::string not_closed_sentence(const Completeness& found) {
  const char* const why = !found.is_being_written   ? "the program was killed, or is still running"
                          : *found.is_being_written ? "the program is still running"
                                                    : "the program was killed";
  return fmt::format(
      "The recording was not closed: {}. What it did in its last moments (about 0.4 s) is missing.",
      why);
}

// "This is a part of the run: steps 88–91 of cuda:0, around its peak (events 1,000 to 1,999 of
// 100,000)."
std::string excerpt_sentence(const Completeness::Excerpt& excerpt) {
  const ExcerptRange& range = excerpt.range;
  const std::string events = fmt::format("events {} to {} of {}", grouped(range.from),
                                         grouped(range.to - 1), grouped(range.run_events));
  std::string part = events + " on " + excerpt.device;
  if (range.first_step > 0) {
    const std::string steps = range.first_step == range.last_step
                                  ? fmt::format("step {}", range.first_step)
                                  : fmt::format("steps {}–{}", range.first_step, range.last_step);
    part = fmt::format("{} on {} ({})", steps, excerpt.device, events);
  }
  return fmt::format("This is a part of the run, {}{}. Memory that is older is included.",
                     range.is_around_peak ? "around its peak: " : "", part);
}

}  // namespace

std::vector<std::string> missing_sentences(const Completeness& found) {
  std::vector<std::string> sentences;
  for (const Completeness::Excerpt& excerpt : found.excerpts)
    sentences.push_back(excerpt_sentence(excerpt));
  if (found.is_whole()) return sentences;
  if (!found.is_closed) {
    sentences.push_back(not_closed_sentence(found));
    if (found.is_host_memory_low()) sentences.push_back(host_memory_sentence(found));
  }
  if (!found.problem.empty()) {
    std::string text = fmt::format("Recording stopped early: {}.", found.problem);
    if (found.least_lost > 0) text += fmt::format(" {} are missing.", lost_of_made(found));
    if (found.lost_periods.empty()) {
      sentences.push_back(text + " The figures cover what came before.");
    } else {
      sentences.push_back(text + " " + what_it_means(found));
    }
  } else if (found.least_lost > 0) {
    sentences.push_back(fmt::format("{} {} lost: the recorder could not keep up. {}",
                                    lost_of_made(found), were(found.least_lost),
                                    what_it_means(found)));
  }
  if (found.summarised.total() > 0) sentences.push_back(kept_sentence(found));
  if (found.was_paused) {
    sentences.push_back("Recording was paused for a time: what happened then is missing. " +
                        what_it_means(found));
  }
  return sentences;
}

}  // namespace gpumemprof::text
