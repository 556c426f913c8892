#include "analysis/leaks/leaks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "analysis/code/common_line.h"
#include "analysis/code/shown_file.h"
#include "analysis/leaks/leak_advice.h"
#include "analysis/overview/overview.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

// "train.py:12" names the line, "train.py" all lines of a file; folders may be left out.
bool is_named(const std::string& suppression, const std::string& file, std::uint32_t line) {
  const std::string place = file + ":" + std::to_string(line);
  const auto ends_with_part = [](const std::string& text, const std::string& part) {
    if (!text.ends_with(part)) return false;
    return text.size() == part.size() || text[text.size() - part.size() - 1] == '/';
  };
  return !suppression.empty() &&
         (ends_with_part(place, suppression) || ends_with_part(file, suppression));
}

// Sums of the rows that leak, of one line of code.
struct LeakRows {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t measured_blocks = 0;
  std::uint32_t oldest_birth = kNoEvent;
  std::map<MemorySource, std::uint64_t> by_source;
  std::map<std::uint32_t, std::uint64_t> by_stack;
  std::uint32_t module = kNoModule;
  bool has_one_module = true;
  StringId tag;
  bool has_one_tag = true;
};

template <typename Key>
Key most_of(const std::map<Key, std::uint64_t>& sums) {
  return std::max_element(sums.begin(), sums.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// Lines whose memory is freed when the work is done, while the model lives on: outputs that are
// collected, used and dropped. A function that returns, or a program that ends, frees the model
// too.
class DroppedSites {
 public:
  explicit DroppedSites(const LeakGround& ground) {
    if (ground.floors.steps.empty()) return;
    // What is younger is still in use by the last repetition.
    const std::uint32_t last_floor = ground.floors.steps.back().event;
    for (const KeptAllocation& kept : ground.kept) {
      if (kept.birth > last_floor) continue;
      sites_[kept.site].add(kept);
      if (kept.source == MemorySource::parameters) model_.add(kept);
    }
  }

  [[nodiscard]] bool has(const SiteFloors& site) const {
    const auto found = sites_.find(AllocationSite{site.stack, site.is_backward}.key());
    return model_.live_bytes > model_.freed_bytes && found != sites_.end() &&
           found->second.live_bytes < found->second.freed_bytes / 10;
  }

 private:
  struct Sums {
    std::uint64_t freed_bytes = 0;
    std::uint64_t live_bytes = 0;
    void add(const KeptAllocation& kept) {
      (kept.is_freed ? freed_bytes : live_bytes) += kept.bytes;
    }
  };
  std::map<std::uint64_t, Sums> sites_;
  Sums model_;
};

class LeakFinder {
 public:
  LeakFinder(const Store& store, const DeviceReplay& replay, const LeakGround& ground,
             const LeaksOptions& options)
      : store_(store),
        replay_(replay),
        ground_(ground),
        floors_(ground.floors),
        table_(ground.table),
        options_(options) {}

  DeviceLeaks run() {
    DecideOptions options;
    options.is_inference = ground_.kind != RunKind::training;
    options.has_weak_repetitions = ground_.repetition == RepetitionKind::lines;
    options.is_suppressed = [this](const SiteFloors& site) { return is_suppressed(site.stack); };
    const DroppedSites dropped(ground_);
    options.is_dropped = [&](const SiteFloors& site) { return dropped.has(site); };
    decision_ = decide(table_, options);
    found_.device = ground_.device;
    found_.name = store_.device_name(ground_.device);
    found_.verdict = decision_.verdict;
    found_.repetition = ground_.repetition;
    if (!ground_.line.is_none()) found_.repeated_line = store_.stacks().frame(ground_.line);
    found_.steps = static_cast<std::uint32_t>(table_.floors.size());
    if (!table_.floors.empty()) found_.last_step = table_.floors.back().step;
    found_.bytes_per_step = decision_.bytes_per_floor;
    found_.reserved_bytes_per_step = decision_.reserved_bytes_per_floor;
    found_.outside_bytes_per_step = decision_.outside_bytes_per_floor;
    found_.stopped_bytes = decision_.stopped_bytes;
    add_notes();
    if (decision_.verdict == LeakVerdict::leak) describe(decision_.leaks, false);
    if (decision_.verdict == LeakVerdict::cycles) describe(decision_.cycles, true);
    if (decision_.verdict == LeakVerdict::leak) predict_end();
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool is_suppressed(StackId stack) const {
    if (stack.is_none()) return false;
    const Frame& frame = store_.frame(store_.stacks().frame(stack));
    const std::string file = shown_file(store_.text(frame.file), store_.program_folder());
    return std::any_of(options_.suppressions.begin(), options_.suppressions.end(),
                       [&](const std::string& each) { return is_named(each, file, frame.line); });
  }

  void add_notes() {
    bool has_state = false;
    bool has_inputs = false;
    bool has_sequence = false;
    std::uint64_t dropped_bytes = 0;
    for (const GrowingSite& site : decision_.innocents) {
      has_state = has_state || site.reason == GrowthReason::training_state;
      has_inputs = has_inputs || site.reason == GrowthReason::longer_inputs;
      has_sequence = has_sequence || site.reason == GrowthReason::one_sequence;
      if (site.reason == GrowthReason::suppressed) ++found_.suppressed;
      if (site.reason == GrowthReason::dropped) dropped_bytes += site.trend.grown_bytes;
    }
    if (has_state)
      found_.notes.emplace_back(
          "Gradients and optimizer state grow as more parameters are trained; that ends with the "
          "parameters.");
    if (has_inputs)
      found_.notes.emplace_back(
          "What one step leaves to the next grows, but so does all that the program allocates: its "
          "inputs become longer.");
    if (dropped_bytes > 0)
      found_.notes.push_back("It grew by " + format_bytes(dropped_bytes) +
                             ", which the program frees after the last one: results that are "
                             "collected until then, or a list that outlived the loop.");
    if (has_sequence)
      found_.notes.emplace_back(
          "The KV cache of one sequence grows with it; record several sequences to see whether it "
          "is freed.");
  }

  void describe(const std::vector<GrowingSite>& growing, bool is_cycle) {
    std::map<std::uint64_t, LeakRows> rows = collect(growing);
    std::vector<std::pair<StackId, std::uint64_t>> grown;
    grown.reserve(growing.size());
    for (const GrowingSite& each : growing) {
      const SiteFloors& site = table_.sites[each.site];
      const AllocationSite key{site.stack, site.is_backward};
      grown.emplace_back(site.stack, each.trend.grown_bytes);
      add_site(each, rows[key.key()], is_cycle);
    }
    std::stable_sort(
        found_.leaks.begin(), found_.leaks.end(),
        [](const LeakSite& a, const LeakSite& b) { return a.bytes_per_step > b.bytes_per_step; });
    found_.line = common_line(store_, grown);
  }

  [[nodiscard]] std::map<std::uint64_t, LeakRows> collect(const std::vector<GrowingSite>& growing) {
    std::map<std::uint64_t, LeakRows> found;
    // The event from which what stays is leaked, and the sizes of that: the first repetition may
    // begin after the first of them.
    std::map<std::uint64_t, std::uint32_t> since;
    std::map<std::uint64_t, std::set<std::uint64_t>> sizes;
    std::set<std::uint64_t> begins_early;
    constexpr std::uint32_t kFirstRise = 2;  // a floor: after the warm-up
    for (const GrowingSite& each : growing) {
      const SiteFloors& site = table_.sites[each.site];
      const std::uint32_t floor = each.trend.first_floor;
      const std::uint32_t before = floor > 0 ? floors_.steps[floor - 1].event : 0;
      const AllocationSite key{site.stack, site.is_backward};
      since[key.key()] = each.trend.first_floor == 0 ? 0 : before;
      if (floor <= kFirstRise) begins_early.insert(key.key());
      found[key.key()];
    }
    for (const KeptAllocation& kept : ground_.kept) {
      const auto begin = since.find(kept.site);
      if (begin == since.end() || kept.birth < begin->second) continue;
      add_row(found[kept.site], kept);
      sizes[kept.site].insert(kept.bytes);
    }
    for (const KeptAllocation& kept : ground_.kept) {
      const auto like = sizes.find(kept.site);
      if (like == sizes.end() || kept.birth >= since[kept.site]) continue;
      if (begins_early.contains(kept.site) && like->second.contains(kept.bytes))
        add_row(found[kept.site], kept);
    }
    return found;
  }

  static void add_row(LeakRows& sum, const KeptAllocation& kept) {
    if (sum.blocks == 0) {
      sum.module = kept.module;
      sum.tag = kept.tag;
    }
    sum.has_one_module = sum.has_one_module && sum.module == kept.module;
    sum.has_one_tag = sum.has_one_tag && sum.tag == kept.tag;
    sum.bytes += kept.bytes;
    ++sum.blocks;
    if (kept.is_measured) ++sum.measured_blocks;
    sum.oldest_birth = std::min(sum.oldest_birth, kept.birth);
    sum.by_source[kept.source] += kept.bytes;
    sum.by_stack[kept.stack.index] += kept.bytes;
  }

  // The step whose events contain this one; what is before the first counts to it.
  [[nodiscard]] std::uint32_t step_of(std::uint32_t event) const {
    std::uint32_t step = floors_.steps.front().step;
    for (const StepFloor& floor : floors_.steps) {
      if (floor.first_event > event) break;
      step = floor.step;
    }
    return step;
  }

  void add_site(const GrowingSite& each, const LeakRows& rows, bool is_cycle) {
    const SiteFloors& site = table_.sites[each.site];
    LeakSite leak;
    leak.stack = site.stack;
    leak.is_backward = site.is_backward;
    leak.bytes_per_step = each.trend.bytes_per_floor;
    leak.bytes = rows.bytes;
    leak.blocks = rows.blocks;
    // The floor of a step is usually at its beginning: the step before left it behind.
    leak.first_step = floors_.steps[std::max(1U, each.trend.first_floor) - 1].step;
    LeakEvidence evidence;
    evidence.stack = site.stack;
    if (rows.blocks > 0) {
      leak.first_step = step_of(rows.oldest_birth);
      leak.oldest_age_steps =
          found_.last_step - std::min(found_.last_step, step_of(rows.oldest_birth));
      leak.source = most_of(rows.by_source);
      leak.source_provenance =
          rows.measured_blocks == rows.blocks ? Provenance::measured : Provenance::inferred;
      const ModuleLabel* module = store_.module(rows.module);
      if (rows.has_one_module && module != nullptr) leak.module = module->path;
      if (rows.has_one_tag) leak.tag = rows.tag;
      evidence.stack = StackId(most_of(rows.by_stack));
      const double span = std::max(1U, each.trend.last_floor - each.trend.first_floor + 1);
      leak.blocks_per_step = each.trend.is_replaced ? 0 : static_cast<double>(rows.blocks) / span;
    }
    evidence.is_backward = site.is_backward;
    evidence.is_replaced = each.trend.is_replaced;
    evidence.is_cycle = is_cycle;
    evidence.is_inference = ground_.kind != RunKind::training;
    evidence.source = leak.source;
    evidence.blocks_per_step = leak.blocks_per_step;
    evidence.rises = each.trend.rises;
    leak.advice = leak_advice(store_, evidence);
    leak.doubt = leak_doubt(evidence);
    join(leak);
  }

  // One line of code may be reached in several ways.
  void join(const LeakSite& leak) {
    const auto same =
        std::find_if(found_.leaks.begin(), found_.leaks.end(), [&](const LeakSite& other) {
          if (leak.stack.is_none() || other.stack.is_none()) return leak.stack == other.stack;
          return store_.stacks().frame(other.stack) == store_.stacks().frame(leak.stack) &&
                 other.is_backward == leak.is_backward;
        });
    if (same == found_.leaks.end()) {
      found_.leaks.push_back(leak);
      return;
    }
    same->bytes_per_step += leak.bytes_per_step;
    same->blocks_per_step += leak.blocks_per_step;
    same->bytes += leak.bytes;
    same->blocks += leak.blocks;
    same->first_step = std::min(same->first_step, leak.first_step);
    same->oldest_age_steps = std::max(same->oldest_age_steps, leak.oldest_age_steps);
  }

  // How much memory the pool can have, as far as it is known.
  [[nodiscard]] std::optional<std::uint64_t> limit() const {
    if (options_.memory_limit_bytes) return options_.memory_limit_bytes;
    const DeviceFacts& facts = store_.facts().device(ground_.device);
    if (!facts.total_bytes) return std::nullopt;
    std::uint64_t limit = *facts.total_bytes;
    const auto sampled = std::ranges::find_if(
        table_.floors.rbegin(), table_.floors.rend(),
        [](const DeviceFloor& floor) { return floor.outside_bytes != kUnknownBytes; });
    if (sampled != table_.floors.rend()) limit -= std::min(limit, sampled->outside_bytes);
    const double fraction =
        facts.memory_fraction_at_end.value_or(facts.memory_fraction.value_or(1));
    if (fraction < 1) {
      limit = std::min(
          limit, static_cast<std::uint64_t>(fraction * static_cast<double>(*facts.total_bytes)));
    }
    return limit;
  }

  // How much the peaks of the later half grow in a step, if that is steady; else 0. A tensor that a
  // longer one replaces is there twice for a moment, so the peak grows by twice what leaks.
  [[nodiscard]] double peak_growth() const {
    constexpr double kSteady = 1.25;
    constexpr std::size_t kParts = 3;
    const std::size_t part = table_.floors.size() / 2 / kParts;
    if (part < 2) return 0;
    std::array<double, kParts> means{};
    for (std::size_t index = 0; index < kParts * part; ++index) {
      const DeviceFloor& floor = table_.floors[table_.floors.size() - kParts * part + index];
      means[index / part] += static_cast<double>(floor.peak_bytes) / static_cast<double>(part);
    }
    const double first = means[1] - means[0];
    const double second = means[2] - means[1];
    const bool is_steady =
        first > 0 && second > 0 && first <= second * kSteady && second <= first * kSteady;
    return is_steady ? (first + second) / static_cast<double>(2 * part) : 0;
  }

  // The peak of later steps grows as the floor does, or faster, until it meets the limit.
  void predict_end() {
    const std::optional<std::uint64_t> most = limit();
    if (!most || found_.bytes_per_step <= 0) return;
    const std::size_t count = table_.floors.size();
    std::uint64_t peak = 0;
    for (std::size_t index =
             count - std::min<std::size_t>(count, std::max<std::size_t>(4, count / 4));
         index < count; ++index)
      peak = std::max(peak, table_.floors[index].peak_bytes);
    // Blocks are larger than what was requested.
    const double rounding =
        replay_.peak.requested_bytes > 0
            ? std::max(1.0, static_cast<double>(replay_.peak.allocated_bytes) /
                                static_cast<double>(replay_.peak.requested_bytes))
            : 1.0;
    // Peaks that vary a little are no reason to doubt the rate of what leaks.
    constexpr double kMuchMore = 1.5;
    const double of_peaks = peak_growth();
    const bool is_faster = of_peaks > kMuchMore * found_.bytes_per_step;
    const double rate = (is_faster ? of_peaks : found_.bytes_per_step) * rounding;
    const auto limit_bytes = static_cast<double>(*most);
    const double used = static_cast<double>(peak) * rounding;
    double error = 0;
    for (const GrowingSite& each : decision_.leaks) error = std::max(error, 2 * each.trend.error);
    constexpr double kLeastError = 0.05;
    error = std::max(error, kLeastError);
    StepsLeft left;
    left.limit_bytes = *most;
    left.steps = std::max(0.0, (limit_bytes - used) / rate);
    // Free memory between live blocks may be of no use.
    const double reserved = std::max(used, static_cast<double>(replay_.end.totals.reserved_bytes));
    left.low = std::max(0.0, (limit_bytes - reserved) / rate) / (1 + error);
    left.high = left.steps * (1 + error);
    left.low = std::min(left.low, left.steps);
    found_.steps_to_oom = left;
  }

  const Store& store_;
  const DeviceReplay& replay_;
  const LeakGround& ground_;
  const StepFloors& floors_;
  const FloorTable& table_;
  const LeaksOptions& options_;
  LeakDecision decision_;
  DeviceLeaks found_;
};

}  // namespace

const DeviceLeaks* LeaksReport::worst() const {
  const auto found = std::max_element(
      devices.begin(), devices.end(),
      [](const DeviceLeaks& a, const DeviceLeaks& b) { return a.verdict < b.verdict; });
  return found == devices.end() ? nullptr : &*found;
}

DeviceLeaks find_device_leaks(const Store& store, const DeviceRecord& record,
                              const DeviceReplay& replay, const std::vector<PhaseSpan>& spans,
                              const LeaksOptions& options) {
  return judge_leaks(store, replay, find_leak_ground(store, record, spans), options);
}

DeviceLeaks judge_leaks(const Store& store, const DeviceReplay& replay, const LeakGround& ground,
                        const LeaksOptions& options) {
  return LeakFinder(store, replay, ground, options).run();
}

Result<LeaksReport> find_leaks(const Store& store, const std::vector<DeviceReplay>& replays,
                               const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                               const LeaksOptions& options) {
  LeaksReport report;
  report.path = std::move(path);
  if (const Status known = check_device(store, report.path, options.device); !known)
    return known.error();
  for (std::size_t index = 0; index < store.devices().size(); ++index) {
    const DeviceRecord& record = *store.devices()[index];
    if (options.device && *options.device != record.device) continue;
    report.devices.push_back(
        find_device_leaks(store, record, replays[index], phases[index], options));
  }
  return report;
}

}  // namespace gpumemprof
