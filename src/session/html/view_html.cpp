#include "session/html/view_html.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/code/whence.h"
#include "analysis/table/bands.h"
#include "report/view/history_json.h"
#include "report/view/page.h"
#include "report/view/view_json.h"
#include "session/html/page_device.h"
#include "session/html/whole_run_sections.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kFirstLevels = 3;      // levels 0 to 2 are always included
constexpr std::uint32_t kDeepestLevel = 6;     // 32,768 buckets: more than any screen has pixels
constexpr std::uint32_t kDeepestSpans = 10;    // for devices whose whole history is included
constexpr std::size_t kMostHistory = 250'000;  // allocations that a browser reads at once
constexpr std::size_t kMostAllocations = 20'000;
constexpr std::size_t kFewestAllocations = 500;
constexpr std::size_t kMostMoments = 64;  // besides the peak, the end and errors

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

  Result<ViewHtml> run() {
    bytes_ = page_.size() + kNotesBytes;
    // Small, and what a reader asks first.
    for (view::Section& section : whole_run_sections(view_, all_devices_, left_out_)) {
      const std::string name = section.name;
      if (!try_keep(std::move(section))) left_out_.push_back("the answers about " + name);
    }
    add_histories();
    keep(key_section());
    if (!devices_.empty()) add_parts();
    for (std::size_t file = 0; file < view_.file_count(); ++file) {
      if (const std::size_t others = view_.devices_left_out(file); others > 0)
        left_out_.push_back(std::to_string(others) + " devices with lower peaks");
    }
    keep(first_section());
    if (problem_) return *problem_;
    return ViewHtml{view::page_with_sections(page_, sections_), left_out_};
  }

 private:
  static constexpr std::size_t kNotesBytes = 400'000;  // for the first section, written last

  [[nodiscard]] std::uint32_t deepest_level() const {
    std::uint32_t deepest = 0;
    for (const DeviceName name : devices_)
      deepest = std::max(deepest, view_.scale(name).deepest_level());
    return deepest;
  }

  [[nodiscard]] Position last_position(DeviceName name) const {
    return static_cast<Position>(view_.scale(name).positions - 1);
  }
  [[nodiscard]] std::uint64_t most_positions() const {
    std::uint64_t most = 0;
    for (const DeviceName name : devices_)
      most = std::max<std::uint64_t>(most, last_position(name));
    return most;
  }

  // Everything here is asked about devices and moments that exist; a long recording is read again,
  // which may fail.
  void add_answer(view::SectionWriter& writer, const view::Question& question) {
    const Result<std::string> answer = view_.answer(question);
    if (!answer) return note(answer.error());
    writer.add(view::question_text(question), answer.value());
  }
  void note(const Error& error) {
    if (!problem_) problem_ = error;
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
    if (view_.whole(name) == nullptr) return false;
    const DeviceView& view = *view_.whole(name);
    if (view.record().allocations.size() > kMostHistory || !view::can_write_history(view.record()))
      return false;
    std::vector<const Grouping*> groupings;
    for (const GroupBy by : view.group_bys()) groupings.push_back(&view.grouped(by).grouping);
    std::vector<FlameTree> flames;
    for (const FlameBy by : view_.flame_bys(name))
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
    std::uint32_t level = 0;
    while (level < std::min(kDeepestSpans, view_.scale(name).deepest_level()) &&
           (std::uint64_t{Timeline::kTileBuckets} << level) <= last_position(name))
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
    while (deepest_ < std::min(deepest_level(), deepest_complete_level())) {
      if (!try_keep_all(level_sections(deepest_ + 1))) break;
      ++deepest_;
    }
    const std::uint64_t stretches = std::uint64_t{Timeline::kTileBuckets} << deepest_;
    if (stretches <= most_positions()) {
      left_out_.push_back("timeline detail beyond " + std::to_string(stretches) + " intervals" +
                          ", except at peaks, failures and the end");
    }
    keep(known_section());
    add_close_ups();
  }

  // A long run would have to be read as a whole for more than its index knows.
  [[nodiscard]] std::uint32_t deepest_complete_level() const {
    std::uint32_t deepest = kDeepestLevel;
    for (const DeviceName name : devices_) {
      const LongDevice* const indexed = view_.indexed(name);
      while (indexed != nullptr && deepest > 0 && indexed->is_exact({Axis::event, deepest, 0}))
        --deepest;
    }
    return deepest;
  }

  // The timeline around key moments, level by level down to single events.
  void add_close_ups() {
    close_up_ = deepest_;
    for (std::uint32_t level = deepest_ + 1; level <= deepest_level(); ++level) {
      std::vector<view::Section> sections;
      for (const GroupBy by : {GroupBy::source, GroupBy::line}) {
        view::SectionWriter writer("level-" + std::to_string(level) + "-" +
                                   std::string(group_by_name(by)));
        for (const DeviceName name : devices_) {
          if (level > view_.scale(name).deepest_level() || !view_.has(name, by)) continue;
          for (const TileAddress& address : PageDevice(view_, name).close_up_tiles(level))
            add_answer(writer, view::TileQuestion{name, by, address});
        }
        sections.push_back(writer.finish());
      }
      if (!try_keep_all(std::move(sections))) return;
      close_up_ = level;
    }
  }

  // The moments the cursor can go to: the fullest in each bucket of the deepest level, with its
  // time and what is reserved then; what is allocated, and by which group, is in the level itself.
  view::Section known_section() {
    view::SectionWriter writer("known");
    for (const DeviceName name : devices_) {
      const std::uint32_t level = std::min(deepest_, view_.scale(name).deepest_level());
      const Result<std::vector<view::MomentFacts>> moments =
          PageDevice(view_, name).fullest_moments(level);
      if (!moments) {
        note(moments.error());
        continue;
      }
      writer.add("known?" + named(name), view::known_json(level, moments.value()));
    }
    return writer.finish();
  }

  void add_spans(view::SectionWriter& writer, DeviceName name, std::uint32_t level) {
    for (const Axis axis : {Axis::event, Axis::time}) {
      if (axis == Axis::time && !view_.scale(name).has_times()) continue;
      for (std::uint32_t index = 0; index < (1U << level); ++index) {
        add_answer(writer, view::SpansQuestion{name, {axis, level, index}});
      }
    }
  }

  // One section for each grouping, so that a browser unpacks only what it shows, and the spans.
  [[nodiscard]] std::vector<view::Section> level_sections(std::uint32_t level) {
    std::vector<view::Section> sections;
    for (const GroupBy by : kGroupBys) {
      view::SectionWriter writer("level-" + std::to_string(level) + "-" +
                                 std::string(group_by_name(by)));
      for (const DeviceName name : devices_) add_tiles(writer, name, level, by);
      sections.push_back(writer.finish());
    }
    view::SectionWriter writer("spans-" + std::to_string(level));
    for (const DeviceName name : devices_) {
      if (level <= view_.scale(name).deepest_level()) add_spans(writer, name, level);
    }
    sections.push_back(writer.finish());
    return sections;
  }

  void add_tiles(view::SectionWriter& writer, DeviceName name, std::uint32_t level, GroupBy by) {
    if (level > view_.scale(name).deepest_level() || !view_.has(name, by)) return;
    for (const Axis axis : {Axis::event, Axis::time}) {
      if (axis == Axis::time && !view_.scale(name).has_times()) continue;
      for (std::uint32_t index = 0; index < (1U << level); ++index) {
        add_answer(writer, view::TileQuestion{name, by, {axis, level, index}});
      }
    }
  }

  [[nodiscard]] std::set<Position> key_moments(DeviceName name) const {
    return PageDevice(view_, name).key_moments();
  }

  void add_moment(view::SectionWriter& writer, DeviceName name, Position position) {
    add_answer(writer, view::MomentQuestion{name, position});
    for (const FlameBy by : view_.flame_bys(name))
      add_answer(writer, view::FlameQuestion{name, position, by});
    for (const GroupBy by : view_.group_bys(name))
      add_answer(writer, view::GroupBytesQuestion{name, position, by});
    add_answer(writer, view::SegmentsQuestion{name, position, view_.group_bys(name).front()});
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

  void add_comparisons(view::SectionWriter& writer, DeviceName first, DeviceName second) {
    for (const Position from : key_moments(first)) {
      for (const Position to : key_moments(second)) {
        for (const GroupBy by : kGroupBys) {
          if (writer.is_full()) return;
          if (!view_.has(first, by) || !view_.has(second, by)) continue;
          add_answer(writer, view::CompareQuestion{first, from, second, to, by});
        }
      }
    }
  }

  void add_allocations() {
    std::map<std::pair<std::size_t, std::size_t>, PageDevice::Listed> listed;
    std::uint64_t all = 0;
    for (const DeviceName name : devices_) {
      const PageDevice device(view_, name);
      const Result<PageDevice::Listed> part = device.listed();
      if (!part) {
        note(part.error());
        continue;
      }
      listed.emplace(std::pair(name.file, name.device), part.value());
      all = std::max(all, part.value().allocations);
      if (device.is_long())
        left_out_.push_back("allocations of " + view_.device_name(name) +
                            " that are not live in the 200,000 events around its peak");
    }
    std::uint64_t most = std::min<std::uint64_t>(all, kMostAllocations);
    while (!try_keep(allocations_section(listed, most)) && most >= kFewestAllocations) most /= 2;
    if (most < all) {
      left_out_.push_back(std::to_string(all - most) + " of " + std::to_string(all) +
                          " allocations: the smallest and shortest-lived (by bytes × events)");
    }
  }

  static view::Section allocations_section(
      const std::map<std::pair<std::size_t, std::size_t>, PageDevice::Listed>& listed,
      std::size_t most) {
    view::SectionWriter writer("allocations");
    for (const auto& [key, part] : listed) {
      const DeviceName name{key.first, key.second};
      const DeviceView& view = *part.part.view;
      const AllocationPage page = largest_bands(view.record(), part.from, part.to, most);
      writer.add("allocations?" + named(name), view::allocations_json(part.part.source(), page));
      std::set<StackId> stacks;
      for (const AllocationId row : page.rows) {
        stacks.insert(view.record().allocations.stack[row.index]);
        stacks.insert(whence(view.record(), row.index).stack);
      }
      const std::vector<StackId> all(stacks.begin(), stacks.end());
      writer.add("stacks?" + named(name), view::stacks_json(view.store(), all));
    }
    return writer.finish();
  }

  void add_moments() {
    for (std::size_t count = kMostMoments; count >= 8; count /= 2) {
      view::SectionWriter writer("moments-1");
      auto moments = moments_;
      for (const DeviceName name : devices_) {
        for (const Position position : PageDevice(view_, name).spread_moments(count)) {
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
      if (kept > last_position(name)) continue;
      left_out_.push_back("flame graphs and segment maps of " + view_.device_name(name) +
                          ", except at " + std::to_string(kept) +
                          " moments (the page shows the nearest one)");
    }
  }

  view::Section first_section() {
    view::SectionWriter writer("first");
    add_answer(writer, view::MetaQuestion{});
    writer.add("embedded", view::embedded_json(std::max(deepest_, close_up_), left_out_));
    for (std::size_t file = 0; file < view_.file_count(); ++file)
      add_answer(writer, view::ReportQuestion{file});
    for (const DeviceName name : devices_)
      writer.add("moments?" + named(name), list_of(moments_[{name.file, name.device}]));
    for (const DeviceName name : all_devices_) {
      const bool is_whole = !moments_.contains({name.file, name.device});
      writer.add("span_levels?" + named(name),
                 std::to_string(is_whole ? span_levels(name)
                                         : std::min(deepest_, view_.scale(name).deepest_level())));
      add_answer(writer, view::OverlaysQuestion{name});
      writer.add("key_moments?" + named(name), list_of(key_moments(name)));
      for (const GroupBy by : view_.group_bys(name))
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
  std::uint32_t deepest_ = 0;   // of levels that are complete
  std::uint32_t close_up_ = 0;  // of levels that are there around some moments
  std::map<std::pair<std::size_t, std::size_t>, std::set<Position>> moments_;
  std::vector<std::string> left_out_;
  std::optional<Error> problem_;  // the first
};

}  // namespace

Result<ViewHtml> write_view_html(const View& view, std::string_view page,
                                 const ViewHtmlOptions& options) {
  return HtmlWriter(view, page, options).run();
}

}  // namespace gpumemprof
