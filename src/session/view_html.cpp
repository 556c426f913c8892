#include "session/view_html.h"

#include <algorithm>
#include <set>

#include "analysis/table/bands.h"
#include "report/view/history_json.h"
#include "report/view/page.h"
#include "report/view/view_json.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kFirstLevels = 3;      // levels 0 to 2 are always included
constexpr std::uint32_t kDeepestLevel = 6;     // 32,768 buckets: more than any screen has pixels
constexpr std::uint32_t kDeepestSpans = 10;    // for devices whose whole history is included
constexpr std::size_t kMostHistory = 250'000;  // allocations that a browser reads at once
constexpr std::size_t kMostAllocations = 20'000;
constexpr std::size_t kFewestAllocations = 500;
constexpr std::size_t kMostMoments = 64;  // besides the peak, the end and errors
constexpr std::size_t kMostKeyMoments = 6;

std::string named(DeviceName name) {
  return "file=" + std::to_string(name.file) + "&device=" + std::to_string(name.device);
}

std::string list_of(const std::set<Position>& positions) {
  std::string text = "[";
  for (const Position position : positions)
    text += (text.size() > 1 ? "," : "") + std::to_string(position);
  return text + "]";
}

class HtmlWriter {
 public:
  HtmlWriter(const View& view, std::string_view page, const ViewHtmlOptions& options)
      : view_(view), page_(page), most_bytes_(options.most_bytes) {
    for (std::size_t file = 0; file < view.file_count(); ++file) {
      for (std::size_t device = 0; device < view.device_count(file); ++device)
        all_devices_.push_back({file, device});
    }
  }

  ViewHtml run() {
    bytes_ = page_.size() + kNotesBytes;
    add_histories();
    keep(key_section());
    if (!devices_.empty()) add_parts();
    for (std::size_t file = 0; file < view_.file_count(); ++file) {
      if (const std::size_t others = view_.devices_left_out(file); others > 0)
        left_out_.push_back(std::to_string(others) + " devices with lower peaks");
    }
    keep(first_section());
    return {view::page_with_sections(page_, sections_), left_out_};
  }

 private:
  static constexpr std::size_t kNotesBytes = 400'000;  // for the first section, written last

  [[nodiscard]] const DeviceView& device(DeviceName name) const {
    return *view_.device(name).value();
  }
  [[nodiscard]] std::uint32_t deepest_level() const {
    std::uint32_t deepest = 0;
    for (const DeviceName name : devices_)
      deepest = std::max(deepest, device(name).timeline().deepest_level());
    return deepest;
  }

  [[nodiscard]] std::uint64_t most_positions() const {
    std::uint64_t most = 0;
    for (const DeviceName name : devices_)
      most = std::max<std::uint64_t>(most, device(name).timeline().last_position());
    return most;
  }

  // Everything here is asked about devices and moments that exist.
  void add_answer(view::SectionWriter& writer, const view::Question& question) const {
    const Result<std::string> answer = view_.answer(question);
    GMP_CHECK(answer.ok());
    writer.add(view::question_text(question), answer.value());
  }

  void keep(view::Section section) {
    bytes_ += section.packed.size();
    sections_.push_back(std::move(section));
  }
  bool try_keep(view::Section section) {
    if (bytes_ + section.packed.size() > most_bytes_) return false;
    keep(std::move(section));
    return true;
  }

  bool try_keep_all(std::vector<view::Section> sections) {
    std::size_t bytes = bytes_;
    for (const view::Section& section : sections) bytes += section.packed.size();
    if (bytes > most_bytes_) return false;
    for (view::Section& section : sections) keep(std::move(section));
    return true;
  }

  // Devices whose every event is included answer everything themselves; devices_ keeps those that
  // are too large for that.
  void add_histories() {
    std::vector<DeviceName> large;
    for (const DeviceName name : all_devices_) {
      if (!add_history(name)) large.push_back(name);
    }
    devices_ = std::move(large);
  }

  bool add_history(DeviceName name) {
    const DeviceView& view = device(name);
    if (view.record().allocations.size() > kMostHistory || !view::can_write_history(view.record()))
      return false;
    std::vector<const Grouping*> groupings;
    for (const GroupBy by : view.group_bys()) groupings.push_back(&view.grouped(by).grouping);
    std::vector<FlameTree> flames;
    for (const FlameBy by : flame_bys(view.record()))
      flames.push_back(flame_tree(view.store(), view.record(), by));
    view::SectionWriter writer("history-" + std::to_string(name.file) + "-" +
                               std::to_string(name.device));
    const std::string history = view::history_json(
        {{view.store(), view.record(), view.timeline().times()}, groupings, flames});
    if (history.empty()) return false;
    writer.add("history", history);
    for (std::uint32_t level = 0; level <= span_levels(name); ++level)
      add_spans(writer, name, level);
    return !writer.is_full() && try_keep(writer.finish());
  }

  // The deepest level of spans: the one at which a bucket is an event, for devices included whole.
  [[nodiscard]] std::uint32_t span_levels(DeviceName name) const {
    const Timeline& timeline = device(name).timeline();
    std::uint32_t level = 0;
    while (level < std::min(kDeepestSpans, timeline.deepest_level()) &&
           (std::uint64_t{Timeline::kTileBuckets} << level) <= timeline.last_position())
      ++level;
    return level;
  }

  // What fits of devices whose whole history does not.
  void add_parts() {
    deepest_ = std::min(kFirstLevels - 1, deepest_level());
    for (std::uint32_t level = 0; level <= deepest_; ++level) {
      for (view::Section& section : level_sections(level)) keep(std::move(section));
    }
    add_allocations();
    add_moments();
    while (deepest_ < std::min(deepest_level(), kDeepestLevel)) {
      if (!try_keep_all(level_sections(deepest_ + 1))) break;
      ++deepest_;
    }
    const std::uint64_t stretches = std::uint64_t{Timeline::kTileBuckets} << deepest_;
    if (stretches <= most_positions()) {
      left_out_.push_back("timeline detail beyond " + std::to_string(stretches) + " intervals");
    }
    keep(known_section());
  }

  // The moments the cursor can go to: the fullest in each bucket of the deepest level, with its
  // time and what is reserved then; what is allocated, and by which group, is in the level itself.
  view::Section known_section() const {
    view::SectionWriter writer("known");
    for (const DeviceName name : devices_) {
      const Timeline& timeline = device(name).timeline();
      const std::uint32_t level = std::min(deepest_, timeline.deepest_level());
      std::vector<view::MomentFacts> moments;
      for (std::uint32_t index = 0; index < (1U << level); ++index) {
        const Result<Tile> tile =
            timeline.tile({Axis::event, level, index}, device(name).grouped(GroupBy::size).sums);
        GMP_CHECK(tile.ok());
        for (const Position position : tile.value().max_position)
          moments.push_back(view_.facts(name, position));
      }
      writer.add("known?" + named(name), view::known_json(level, moments));
    }
    return writer.finish();
  }

  void add_spans(view::SectionWriter& writer, DeviceName name, std::uint32_t level) const {
    for (const Axis axis : {Axis::event, Axis::time}) {
      if (axis == Axis::time && !device(name).timeline().times().is_known()) continue;
      for (std::uint32_t index = 0; index < (1U << level); ++index) {
        add_answer(writer, view::SpansQuestion{name, {axis, level, index}});
      }
    }
  }

  // One section for each grouping, so that a browser unpacks only what it shows, and the spans.
  [[nodiscard]] std::vector<view::Section> level_sections(std::uint32_t level) const {
    std::vector<view::Section> sections;
    for (const GroupBy by : kGroupBys) {
      view::SectionWriter writer("level-" + std::to_string(level) + "-" +
                                 std::string(group_by_name(by)));
      for (const DeviceName name : devices_) add_tiles(writer, name, level, by);
      sections.push_back(writer.finish());
    }
    view::SectionWriter writer("spans-" + std::to_string(level));
    for (const DeviceName name : devices_) {
      if (level <= device(name).timeline().deepest_level()) add_spans(writer, name, level);
    }
    sections.push_back(writer.finish());
    return sections;
  }

  void add_tiles(view::SectionWriter& writer, DeviceName name, std::uint32_t level,
                 GroupBy by) const {
    const DeviceView& view = device(name);
    if (level > view.timeline().deepest_level() || !view.has(by)) return;
    for (const Axis axis : {Axis::event, Axis::time}) {
      if (axis == Axis::time && !view.timeline().times().is_known()) continue;
      for (std::uint32_t index = 0; index < (1U << level); ++index) {
        add_answer(writer, view::TileQuestion{name, by, {axis, level, index}});
      }
    }
  }

  // The peak, the end, and the first errors.
  [[nodiscard]] std::set<Position> key_moments(DeviceName name) const {
    const DeviceView& view = device(name);
    std::set<Position> moments = {birth_position(view.replay().peak_event),
                                  view.timeline().last_position()};
    const Column<Action>& actions = view.record().events.action;
    for (std::uint32_t event = 0; event < actions.size() && moments.size() < kMostKeyMoments;
         ++event) {
      if (actions[event] == Action::oom) moments.insert(position_after(event));
    }
    return moments;
  }

  void add_moment(view::SectionWriter& writer, DeviceName name, Position position) const {
    add_answer(writer, view::MomentQuestion{name, position});
    for (const FlameBy by : flame_bys(device(name).record()))
      add_answer(writer, view::FlameQuestion{name, position, by});
    for (const GroupBy by : device(name).group_bys())
      add_answer(writer, view::GroupBytesQuestion{name, position, by});
    add_answer(writer, view::SegmentsQuestion{name, position, device(name).group_bys().front()});
  }

  view::Section key_section() {
    view::SectionWriter writer("moments-0");
    for (const DeviceName name : devices_) {
      for (const Position position : key_moments(name)) {
        if (writer.is_full()) break;
        add_moment(writer, name, position);
        moments_[{name.file, name.device}].insert(position);
      }
    }
    for (const DeviceName first : all_devices_) {
      for (const DeviceName second : all_devices_) {
        if (first.device == second.device) add_comparisons(writer, first, second);
      }
    }
    return writer.finish();
  }

  void add_comparisons(view::SectionWriter& writer, DeviceName first, DeviceName second) const {
    for (const Position from : key_moments(first)) {
      for (const Position to : key_moments(second)) {
        for (const GroupBy by : kGroupBys) {
          if (writer.is_full()) return;
          if (!device(first).has(by) || !device(second).has(by)) continue;
          add_answer(writer, view::CompareQuestion{first, from, second, to, by});
        }
      }
    }
  }

  void add_allocations() {
    std::size_t most = 0;
    for (const DeviceName name : devices_)
      most = std::max(most, device(name).record().allocations.size());
    const std::size_t all = most;
    for (most = std::min(most, kMostAllocations);; most /= 2) {
      if (try_keep(allocations_section(most)) || most < kFewestAllocations) break;
    }
    if (most < all) {
      left_out_.push_back(std::to_string(all - most) + " of " + std::to_string(all) +
                          " allocations: the smallest and shortest-lived (by bytes × events)");
    }
  }

  view::Section allocations_section(std::size_t most) const {
    view::SectionWriter writer("allocations");
    for (const DeviceName name : devices_) {
      const DeviceView& view = device(name);
      const AllocationPage page =
          largest_bands(view.record(), 0, view.timeline().last_position() + 1, most);
      const view::AllocationSource source{view.store(), view.record(), view.timeline().times()};
      writer.add("allocations?" + named(name), view::allocations_json(source, page));
      std::set<StackId> stacks;
      for (const AllocationId row : page.rows) {
        stacks.insert(view.record().allocations.stack[row.index]);
        stacks.insert(module_stack(view.record(), row.index));
      }
      const std::vector<StackId> listed(stacks.begin(), stacks.end());
      writer.add("stacks?" + named(name), view::stacks_json(view.store(), listed));
    }
    return writer.finish();
  }

  // Moments spread over the run: the fullest in each stretch.
  [[nodiscard]] std::set<Position> spread_moments(DeviceName name, std::size_t count) const {
    const LiveChanges& allocated = device(name).timeline().allocated();
    const std::uint64_t positions = std::uint64_t{allocated.last_position()} + 1;
    std::set<Position> moments;
    for (std::uint64_t part = 0; part < count; ++part) {
      const auto from = static_cast<Position>(part * positions / count);
      const auto to = static_cast<Position>((part + 1) * positions / count);
      if (from < to) moments.insert(allocated.range(from, to).max_position);
    }
    return moments;
  }

  void add_moments() {
    for (std::size_t count = kMostMoments; count >= 8; count /= 2) {
      view::SectionWriter writer("moments-1");
      auto moments = moments_;
      for (const DeviceName name : devices_) {
        for (const Position position : spread_moments(name, count)) {
          if (writer.is_full()) break;
          if (moments[{name.file, name.device}].insert(position).second)
            add_moment(writer, name, position);
        }
      }
      if (writer.is_full() || !try_keep(writer.finish())) continue;
      moments_ = std::move(moments);
      break;
    }
    for (const DeviceName name : devices_) {
      const std::size_t kept = moments_[{name.file, name.device}].size();
      if (kept > device(name).timeline().last_position()) continue;
      left_out_.push_back("flame graphs and segment maps of " +
                          device(name).store().device_name(device(name).record().device) +
                          ", except at " + std::to_string(kept) +
                          " moments (the page shows the nearest one)");
    }
  }

  view::Section first_section() {
    view::SectionWriter writer("first");
    add_answer(writer, view::MetaQuestion{});
    writer.add("embedded", view::embedded_json(deepest_, left_out_));
    for (std::size_t file = 0; file < view_.file_count(); ++file)
      add_answer(writer, view::ReportQuestion{file});
    for (const DeviceName name : devices_)
      writer.add("moments?" + named(name), list_of(moments_[{name.file, name.device}]));
    for (const DeviceName name : all_devices_) {
      const bool is_whole = !moments_.contains({name.file, name.device});
      writer.add(
          "span_levels?" + named(name),
          std::to_string(is_whole ? span_levels(name)
                                  : std::min(deepest_, device(name).timeline().deepest_level())));
      add_answer(writer, view::OverlaysQuestion{name});
      writer.add("key_moments?" + named(name), list_of(key_moments(name)));
      for (const GroupBy by : device(name).group_bys())
        add_answer(writer, view::GroupsQuestion{name, by});
    }
    return writer.finish();
  }

  const View& view_;
  std::string_view page_;
  std::size_t most_bytes_;
  std::vector<DeviceName> all_devices_;
  std::vector<DeviceName> devices_;  // those whose whole history is not included
  std::vector<view::Section> sections_;
  std::size_t bytes_ = 0;
  std::uint32_t deepest_ = 0;
  std::map<std::pair<std::size_t, std::size_t>, std::set<Position>> moments_;
  std::vector<std::string> left_out_;
};

}  // namespace

ViewHtml write_view_html(const View& view, std::string_view page, const ViewHtmlOptions& options) {
  return HtmlWriter(view, page, options).run();
}

}  // namespace gpumemprof
