#include "report/profile/speedscope.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "analysis/code/shown_file.h"
#include "base/printable.h"
#include "report/profile/moment_text.h"

namespace gpumemprof {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

class SpeedscopeWriter {
 public:
  explicit SpeedscopeWriter(const Store& store) : store_(store) {}

  void add(const StackProfile& profile, const ProfiledMoment& moment,
           std::uint64_t StackSample::* bytes, const std::string& name) {
    // Stacks that differ only in their source or tag are one.
    std::vector<std::pair<StackId, bool>> stacks;
    std::unordered_map<std::uint64_t, std::size_t> place_of;
    std::vector<std::uint64_t> weights;
    for (const StackSample& sample : profile.samples) {
      if (sample.device != moment.device || sample.*bytes == 0) continue;
      const std::uint64_t key =
          std::uint64_t{sample.stack.index} << 1U | (sample.is_backward ? 1 : 0);
      const auto [place, is_new] = place_of.try_emplace(key, stacks.size());
      if (is_new) {
        stacks.emplace_back(sample.stack, sample.is_backward);
        weights.push_back(0);
      }
      weights[place->second] += sample.*bytes;
    }
    std::uint64_t total = 0;
    for (const std::uint64_t weight : weights) total += weight;
    profiles_ += fmt::format(
        "{}{{\"type\":\"sampled\",\"name\":{},\"unit\":\"bytes\",\"startValue\":0,"
        "\"endValue\":{},\"samples\":[",
        profiles_.empty() ? "" : ",\n", quoted(name), total);
    for (std::size_t index = 0; index < stacks.size(); ++index) {
      if (index > 0) profiles_ += ',';
      add_stack(stacks[index].first, stacks[index].second);
    }
    profiles_ += "],\"weights\":[";
    for (std::size_t index = 0; index < weights.size(); ++index) {
      if (index > 0) profiles_ += ',';
      profiles_ += std::to_string(weights[index]);
    }
    profiles_ += "]}";
  }

  std::string finish(const std::string& name) {
    return fmt::format(
        "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n\"exporter\":{},"
        "\n\"name\":{},\n\"activeProfileIndex\":0,\n\"shared\":{{\"frames\":[{}]}},\n"
        "\"profiles\":[{}]}}\n",
        quoted("gpumemprof " GPUMEMPROF_VERSION), quoted(name), frames_, profiles_);
  }

 private:
  // Outermost frame first.
  void add_stack(StackId stack, bool is_backward) {
    profiles_ += '[';
    if (stack.is_none()) {
      profiles_ += std::to_string(named_frame("[no stack]"));
    } else {
      const std::vector<FrameId> frames = store_.stacks().frames_of(stack);
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        if (frame != frames.rbegin()) profiles_ += ',';
        profiles_ += std::to_string(frame_place(*frame));
      }
      if (is_backward) profiles_ += "," + std::to_string(named_frame("[backward]"));
    }
    profiles_ += ']';
  }

  std::size_t named_frame(const std::string& name) {
    const auto [place, is_new] = named_.try_emplace(name, count_);
    if (is_new) put_frame("{\"name\":" + quoted(name) + "}");
    return place->second;
  }

  std::size_t frame_place(FrameId id) {
    const auto [place, is_new] = places_.try_emplace(id.index, count_);
    if (!is_new) return place->second;
    const Frame& frame = store_.frame(id);
    std::string text = "{\"name\":" + quoted(printable(store_.text(frame.name)));
    const std::string file =
        printable(shown_file(store_.text(frame.file), store_.program_folder()));
    if (!file.empty()) text += ",\"file\":" + quoted(file);
    if (frame.line > 0) text += ",\"line\":" + std::to_string(frame.line);
    put_frame(text + "}");
    return place->second;
  }

  void put_frame(const std::string& json) {
    frames_ += (count_ == 0 ? "" : ",\n") + json;
    ++count_;
  }

  const Store& store_;
  std::string frames_;
  std::string profiles_;
  std::size_t count_ = 0;
  std::unordered_map<std::string, std::size_t> named_;
  std::unordered_map<std::uint32_t, std::size_t> places_;
};

}  // namespace

std::string speedscope_profile(const std::vector<StackProfile>& profiles, const Store& store,
                               const std::vector<AboutLine>& about) {
  SpeedscopeWriter writer(store);
  for (const StackProfile& profile : profiles) {
    for (const ProfiledMoment& moment : profile.moments)
      writer.add(profile, moment, &StackSample::inuse_bytes,
                 store.device_name(moment.device) + ": in use " + moment_text(moment));
  }
  for (const ProfiledMoment& moment : profiles.back().moments) {
    writer.add(profiles.back(), moment, &StackSample::alloc_bytes,
               store.device_name(moment.device) + ": allocated so far, " + moment_text(moment));
  }
  std::string name;
  for (const auto& [key, value] : about) {
    if (key == "recording") name += value;
    if (key == "figures" && value != "measured") name += " (" + value + ")";
    if (key == "missing") name += " (" + value + ")";
  }
  return writer.finish(name);
}

}  // namespace gpumemprof
