#include "session/html/whole_run_sections.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "session/excerpt/excerpt.h"

namespace gpumemprof {
namespace {

// Every set of remedies is two runs of the simulator: for more events, writing a page would take
// minutes.
constexpr std::uint64_t kMostTriedEvents = 150'000;
constexpr std::uint32_t kAlonePoints = 1024;  // of a curve
constexpr std::uint32_t kPairPoints = 256;
constexpr unsigned kMostThreads = 4;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
// Cards that a reader can choose.
constexpr std::uint64_t kCardsGiB[] = {24, 40, 80, 141};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::ranges::sort(names);
  return names;
}

// The answers about the remedies of one device.
class AdviceWriter {
 public:
  AdviceWriter(DeviceName name, const DeviceAdvice& advice, view::SectionWriter& writer)
      : name_(name), advice_(advice), writer_(writer) {}

  void run(const Store& store) {
    add(view::AdviceQuestion{name_, std::nullopt},
        view::advice_answer_json(advice_.advice(std::nullopt), store));
    const Result<Advice> alone = advice_.advice(std::nullopt);
    if (!alone) return;
    take_pairs(alone.value());
    for (const std::uint64_t card : kCardsGiB) {
      const Result<Advice> fitting = advice_.advice(card * kGiB);
      add(view::AdviceQuestion{name_, card * kGiB}, view::advice_answer_json(fitting, store));
      if (fitting && fitting.value().fit && !fitting.value().fit->set.names.empty())
        sets_.insert(sorted(fitting.value().fit->set.names));
    }
    add_sets();
  }

 private:
  void add(const view::Question& question, const std::string& answer) {
    writer_.add(view::question_text(question), answer);
  }

  // Every remedy that can be switched on, and every two that do not exclude each other.
  void take_pairs(const Advice& alone) {
    std::map<std::string, std::string> family;
    for (const RemedyEntry& entry : list_remedies()) {
      if (entry.kind == alone.kind) family[entry.name] = entry.family;
    }
    std::vector<std::string> names;
    for (const Remedy& remedy : alone.remedies) {
      if (remedy.peak_allocated || remedy.at_least_bytes) names.push_back(remedy.name);
    }
    for (const std::string& one : names) {
      sets_.insert({one});
      for (const std::string& other : names) {
        if (one < other && (family[one].empty() || family[one] != family[other]))
          sets_.insert({one, other});
      }
    }
  }

  // A few at a time: each is two runs of the simulator.
  void add_sets() {
    const std::vector<std::vector<std::string>> sets(sets_.begin(), sets_.end());
    const Result<view::PredictedTogether> not_yet = Error();
    std::vector<Result<view::PredictedTogether>> predicted(sets.size(), not_yet);
    std::atomic<std::size_t> next = 0;
    const auto predict = [&] {
      for (std::size_t at = next++; at < sets.size(); at = next++) {
        const std::uint32_t points = sets[at].size() == 1 ? kAlonePoints : kPairPoints;
        predicted[at] = advice_.together(joined(sets[at]), nullptr, points);
      }
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned more = 1; more < std::min(std::thread::hardware_concurrency(), kMostThreads);
           ++more)
        threads.emplace_back(predict);
      predict();
    }
    for (std::size_t at = 0; at < sets.size(); ++at) add_set(sets[at], predicted[at]);
  }

  // Under the names in their order: the page finds a set whichever was switched on first. When the
  // points of a curve are is the same for all sets, and written once.
  void add_set(const std::vector<std::string>& names, Result<view::PredictedTogether>& predicted) {
    if (predicted && !predicted.value().starts_ns.empty()) {
      const auto [points, is_new] = starts_.insert(predicted.value().most_bytes.size());
      if (is_new) {
        writer_.add("together_times?file=" + std::to_string(name_.file) + "&device=" +
                        std::to_string(name_.device) + "&points=" + std::to_string(*points),
                    view::differences_json(predicted.value().starts_ns));
      }
      predicted.value().starts_ns.clear();
    }
    add(view::TogetherQuestion{name_, joined(names)}, view::together_answer_json(predicted));
  }

  DeviceName name_;
  const DeviceAdvice& advice_;
  view::SectionWriter& writer_;
  std::set<std::vector<std::string>> sets_;
  std::set<std::size_t> starts_;  // by number of points
};

// Of a run that would take long, the steps around its peak are tried.
std::unique_ptr<DeviceAdvice> advice_around_peak(const std::string& path, DeviceIndex device) {
  return std::make_unique<DeviceAdvice>(
      device, [path, device] { return open_excerpt(path, {AskedPart::Kind::peak, 0, 0, device}); });
}

std::uint64_t most_events(const Recording& recording) {
  std::uint64_t most = 0;
  for (const auto& device : recording.store().devices())
    most = std::max<std::uint64_t>(most, device->events.size());
  return most;
}

// False: it would take too long.
bool add_advice(const View& view, DeviceName name, view::SectionWriter& writer) {
  const DeviceAdvice* tried = &view.advice(name);
  std::unique_ptr<DeviceAdvice> part;
  if (view.whole(name) != nullptr && view.scale(name).positions > kMostTriedEvents) {
    part = advice_around_peak(view.path(name.file), view.whole(name)->record().device);
    tried = part.get();
  }
  const Result<std::shared_ptr<const Recording>> recording = tried->recording();
  if (!recording || most_events(*recording.value()) > kMostTriedEvents) return false;
  AdviceWriter(name, *tried, writer).run(recording.value()->store());
  return true;
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
    if (view.replay(name).has_history && !add_advice(view, name, advice))
      left_out.push_back("what remedies would change in " + view.device_name(name) +
                         " (gpumemprof advise says it)");
  }
  return {steps.finish(), advice.finish()};
}

}  // namespace gpumemprof
