#include "report/about/about.h"

#include "base/printable.h"
#include "report/text/overview/completeness_text.h"

namespace gpumemprof {
namespace {

// Predicted and simulated runs never happened as they are shown.
std::string figures_of(const Origin& origin) {
  if (origin.kind == kPredictedRun) return "predicted: the program ran without a GPU";
  if (origin.kind == kSimulatedRun) return "simulated: recorded requests under other settings";
  return "measured";
}

std::string lost_events_of(const Completeness& completeness) {
  if (!completeness.is_recording) return "unknown: a snapshot does not say";
  if (completeness.lost) return std::to_string(completeness.lost->total());
  if (completeness.least_lost > 0) return "at least " + std::to_string(completeness.least_lost);
  return "unknown";
}

}  // namespace

std::vector<AboutLine> about_run(const std::string& path, const Store& store,
                                 const Completeness& completeness) {
  std::vector<AboutLine> about;
  about.emplace_back("made_by", "gpumemprof " GPUMEMPROF_VERSION);
  about.emplace_back("recording", printable(path));
  about.emplace_back("figures", figures_of(store.origin()));
  about.emplace_back("sources",
                     "measured where the recording names the storage, inferred everywhere else");
  about.emplace_back("lost_events", lost_events_of(completeness));
  for (const std::string& sentence : text::missing_sentences(completeness))
    about.emplace_back("missing", printable(sentence));
  return about;
}

std::vector<std::string> about_texts(const std::vector<AboutLine>& about) {
  std::vector<std::string> texts;
  texts.reserve(about.size());
  for (const auto& [name, value] : about) texts.emplace_back(name).append(": ").append(value);
  return texts;
}

}  // namespace gpumemprof
