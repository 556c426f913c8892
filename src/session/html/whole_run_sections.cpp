#include "session/html/whole_run_sections.h"

#include <set>

namespace gpumemprof {
namespace {

// Every remedy is a run of the simulator: for more events, writing a page would take minutes.
constexpr std::uint64_t kMostTriedEvents = 300'000;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
// Cards that a reader can choose.
constexpr std::uint64_t kCardsGiB[] = {24, 40, 80, 141};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

void add_advice(const View& view, DeviceName name, view::SectionWriter& writer) {
  const auto add = [&](const view::Question& question) {
    if (const Result<std::string> answer = view.answer(question))
      writer.add(view::question_text(question), answer.value());
  };
  const DeviceAdvice& advice = *view.advice(name);
  add(view::AdviceQuestion{name, std::nullopt});
  const Result<Advice> alone = advice.advice(std::nullopt);
  if (!alone) return;
  std::set<std::string> sets;
  for (const Remedy& remedy : alone.value().remedies) {
    if (remedy.peak_allocated) sets.insert(remedy.name);
  }
  for (const std::uint64_t card : kCardsGiB) {
    add(view::AdviceQuestion{name, card * kGiB});
    const Result<Advice> fitting = advice.advice(card * kGiB);
    if (fitting && fitting.value().fit && !fitting.value().fit->set.names.empty())
      sets.insert(joined(fitting.value().fit->set.names));
  }
  for (const std::string& set : sets) add(view::TogetherQuestion{name, set});
}

}  // namespace

std::vector<view::Section> whole_run_sections(const View& view,
                                              const std::vector<DeviceName>& devices,
                                              std::vector<std::string>& left_out) {
  view::SectionWriter steps("steps");
  view::SectionWriter advice("advice");
  for (const DeviceName name : devices) {
    const view::StepsQuestion question{name};
    if (const Result<std::string> answer = view.answer(question))
      steps.add(view::question_text(question), answer.value());
    if (!view.replay(name).has_history) continue;
    if (view.advice(name) == nullptr || view.scale(name).positions > kMostTriedEvents) {
      left_out.push_back("what remedies would change in " + view.device_name(name) +
                         " (gpumemprof advise says it)");
      continue;
    }
    add_advice(view, name, advice);
  }
  return {steps.finish(), advice.finish()};
}

}  // namespace gpumemprof
