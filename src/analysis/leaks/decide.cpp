#include "analysis/leaks/decide.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"

namespace gpumemprof {
namespace {

// State of an optimizer, as multiples of the parameters: Adam has 2, AMSGrad 3.
constexpr std::uint64_t kMostStates = 4;
constexpr std::uint64_t kLeastPoolGrowth = 20 * kMiB;  // a segment
constexpr std::uint64_t kLeastOutsideGrowth = 32 * kMiB;
constexpr std::size_t kFewestPoolRises = 3;

class Decider {
 public:
  Decider(const FloorTable& table, const DecideOptions& options)
      : table_(table), options_(options) {}

  LeakDecision run() {
    if (table_.floors.size() < options_.fewest_floors) return {};
    decision_.verdict = LeakVerdict::clean;
    for (const SiteFloors& site : table_.sites) {
      const TrendFollower followed = site.followed(table_.floors.size());
      trends_.push_back(followed.trend());
      blocks_.push_back(followed.blocks());
    }
    for (std::uint32_t site = 0; site < table_.sites.size(); ++site) judge(site);
    if (decision_.stopped_bytes >= options_.least_bytes) raise_to(LeakVerdict::warm_up);
    judge_pool();
    sort(decision_.leaks);
    sort(decision_.cycles);
    return std::move(decision_);
  }

 private:
  void raise_to(LeakVerdict verdict) { decision_.verdict = std::max(decision_.verdict, verdict); }

  static void sort(std::vector<GrowingSite>& sites) {
    std::stable_sort(sites.begin(), sites.end(), [](const GrowingSite& a, const GrowingSite& b) {
      return a.trend.bytes_per_floor > b.trend.bytes_per_floor;
    });
  }

  void judge(std::uint32_t index) {
    const SiteTrend& trend = trends_[index];
    if (trend.trend == Trend::stopped) decision_.stopped_bytes += trend.grown_bytes;
    if (trend.trend == Trend::up_and_down && trend.is_collected &&
        trend.swing_bytes >= options_.least_bytes && trend.rises >= kFewestPoolRises) {
      if (options_.is_suppressed && options_.is_suppressed(table_.sites[index])) return;
      decision_.cycles.push_back({index, trend, GrowthReason::none});
      raise_to(LeakVerdict::cycles);
      return;
    }
    if (trend.trend != Trend::growing || trend.grown_bytes < options_.least_bytes ||
        is_too_slow(index))
      return;
    const GrowthReason reason = reason_of(index);
    if (reason != GrowthReason::none) {
      decision_.innocents.push_back({index, trend, reason});
      return;
    }
    decision_.leaks.push_back({index, trend, reason});
    decision_.bytes_per_floor += trend.bytes_per_floor;
    raise_to(LeakVerdict::leak);
  }

  // A list of scalars, say. What grows as slowly because a large block stays only now and then is
  // no such list.
  [[nodiscard]] bool is_too_slow(std::uint32_t index) const {
    const SiteTrend& trend = trends_[index];
    if (trend.bytes_per_floor >= options_.least_bytes_per_floor) return false;
    constexpr std::uint64_t kTimes = 4;
    if (trend.grown_bytes < kTimes * options_.least_bytes) return true;
    return static_cast<double>(trend.grown_bytes) <
           options_.least_bytes_per_floor *
               static_cast<double>(std::max<std::int64_t>(1, trend.grown_blocks));
  }

  [[nodiscard]] GrowthReason reason_of(std::uint32_t index) const {
    const SiteFloors& site = table_.sites[index];
    if (options_.is_suppressed && options_.is_suppressed(site)) return GrowthReason::suppressed;
    if (options_.is_dropped && options_.is_dropped(site)) return GrowthReason::dropped;
    const MemorySource source = main_source(site);
    const std::uint64_t parameters = live(MemorySource::parameters);
    if (source == MemorySource::gradients && live(source) <= parameters)
      return GrowthReason::training_state;
    if (source == MemorySource::optimizer_state && live(source) <= kMostStates * parameters)
      return GrowthReason::training_state;
    if (options_.is_inference && source == MemorySource::kv_cache && replaces_blocks(index))
      return GrowthReason::one_sequence;
    if (!trends_[index].is_replaced) return GrowthReason::none;
    return follows_inputs(index) ? GrowthReason::longer_inputs : GrowthReason::none;
  }

  [[nodiscard]] std::uint64_t live(MemorySource source) const {
    const auto found = table_.live_bytes.find(source);
    return found == table_.live_bytes.end() ? 0 : found->second;
  }

  [[nodiscard]] static MemorySource main_source(const SiteFloors& site) {
    const auto most =
        std::max_element(site.live_bytes.begin(), site.live_bytes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == site.live_bytes.end() ? MemorySource::unknown : most->first;
  }

  // Its blocks come and go, and each is larger than the one it replaces. Where more and more of
  // them stay, those of sequences that are over are kept.
  [[nodiscard]] bool replaces_blocks(std::uint32_t index) const {
    const auto& [born, freed, live_in_middle] = blocks_[index];
    constexpr std::int64_t kParts = 5;
    // A floor may lie between the new block and the end of the old one.
    const std::int64_t most_live = live_in_middle + std::max<std::int64_t>(2, live_in_middle / 4);
    return kParts * freed >= (kParts - 1) * born && born - freed <= most_live;
  }

  // Whether most of what other lines allocate grows along: the inputs become longer.
  [[nodiscard]] bool follows_inputs(std::uint32_t index) const {
    const SiteFloors& site = table_.sites[index];
    if (site.made_early_bytes == 0) return false;
    const double own = growth_of(site);
    std::uint64_t all = 0;
    std::uint64_t alike = 0;
    for (std::uint32_t other = 0; other < table_.sites.size(); ++other) {
      if (other == index || trends_[other].is_replaced) continue;
      const std::uint64_t made = table_.sites[other].made_early_bytes;
      all += made;
      if (made > 0 && growth_of(table_.sites[other]) > own / 2) alike += made;
    }
    // Where everything is replaced each time, everything grows.
    return all == 0 || 2 * alike >= all;
  }

  [[nodiscard]] static double growth_of(const SiteFloors& site) {
    return static_cast<double>(site.made_late_bytes) / static_cast<double>(site.made_early_bytes) -
           1;
  }

  // Growth of the last two thirds, if it goes on to the end.
  template <typename Value>
  [[nodiscard]] double growth_per_floor(const Value& value, std::uint64_t least) const {
    const std::size_t count = table_.floors.size();
    std::size_t first = count / 3;
    // The card is sampled about once a second: most steps have no sample.
    while (first < count && value(table_.floors[first]) == kUnknownBytes) ++first;
    if (first == count) return 0;
    std::uint64_t most = value(table_.floors[first]);
    const std::uint64_t start = most;
    std::size_t rises = 0;
    std::size_t last = first;
    for (std::size_t index = first + 1; index < count; ++index) {
      const std::uint64_t now = value(table_.floors[index]);
      if (now == kUnknownBytes || now <= most) continue;
      most = now;
      last = index;
      ++rises;
    }
    if (rises < kFewestPoolRises || most - start < least || 3 * (count - last) > count) return 0;
    // What was given back is no growth.
    std::uint64_t end = kUnknownBytes;
    for (std::size_t index = count; index > first && end == kUnknownBytes; --index)
      end = value(table_.floors[index - 1]);
    if (end < start + (most - start) / 2) return 0;
    return static_cast<double>(most - start) / static_cast<double>(count - first);
  }

  void judge_pool() {
    const DeviceFloor& last = table_.floors.back();
    decision_.outside_bytes_per_floor = growth_per_floor(
        [](const DeviceFloor& floor) { return floor.outside_bytes; }, kLeastOutsideGrowth);
    if (decision_.outside_bytes_per_floor > 0) raise_to(LeakVerdict::outside_pool);
    const double reserved =
        growth_per_floor([](const DeviceFloor& floor) { return floor.reserved_bytes; },
                         std::max(kLeastPoolGrowth, last.reserved_bytes / 20));
    const double allocated =
        growth_per_floor([](const DeviceFloor& floor) { return floor.peak_bytes; }, 1);
    decision_.reserved_bytes_per_floor = reserved;
    constexpr double kFarMore = 4;
    if (reserved <= kFarMore * std::max(allocated, decision_.bytes_per_floor)) return;
    const bool outweighs = options_.has_weak_repetitions && decision_.verdict == LeakVerdict::leak;
    if (outweighs) {
      decision_.verdict = LeakVerdict::fragmentation;
    } else {
      raise_to(LeakVerdict::fragmentation);
    }
  }

  const FloorTable& table_;
  const DecideOptions& options_;
  std::vector<SiteTrend> trends_;    // by site
  std::vector<BlockCounts> blocks_;  // likewise
  LeakDecision decision_;
};

}  // namespace

std::string_view leak_verdict_name(LeakVerdict verdict) {
  constexpr std::array<std::string_view, 7> kNames = {
      "too_short", "clean", "warm_up", "fragmentation", "outside_pool", "cycles", "leak"};
  return kNames[static_cast<std::size_t>(verdict)];
}

LeakDecision decide(const FloorTable& table, const DecideOptions& options) {
  return Decider(table, options).run();
}

}  // namespace gpumemprof
