// What the page asks about a range of a device, and about its pool under other settings.
#include <string>

#include "analysis/range/range_changes.h"
#include "analysis/range/singles.h"
#include "session/long_view/long_range.h"
#include "session/view.h"

namespace gpumemprof {

namespace {

// Each changes how free memory is kept, split or returned.
constexpr const char* kTriedSettings[] = {"expandable_segments:True", "max_split_size_mb:128",
                                          "garbage_collection_threshold:0.8",
                                          "roundup_power2_divisions:8"};

LongRange::GoesOn goes_on(LongWork* work) {
  return [work](std::uint64_t done, std::uint64_t total) {
    if (work == nullptr) return true;
    work->update(done, total);
    return !work->is_given_up();
  };
}

// Of a range that is too much to be read at once.
Result<std::string> long_range(const LongDevice& device, Position from, Position to,
                               LongWork* work) {
  const LongRange range(device, from, to);
  Result<view::RangeFacts> facts = range.ends();
  if (!facts) return facts.error();
  if (work != nullptr) {
    const Result<RangeChanges> survivors = range.survivors();
    if (!survivors) return survivors.error();
    work->show(view::range_so_far_json(device.store(), facts.value(), survivors.value()));
  }
  const Result<RangeChanges> changes = range.changes(facts.value(), goes_on(work));
  if (!changes) return changes.error();
  return view::range_json(device.store(), facts.value(), changes.value());
}

}  // namespace

bool View::takes_long(const view::Question& question) const {
  const auto is_long_range = [&](const auto& asked) {
    return check(asked.device) && find(asked.device).indexed != nullptr && asked.to > asked.from;
  };
  if (const auto* range = std::get_if<view::RangeQuestion>(&question)) return is_long_range(*range);
  if (const auto* flame = std::get_if<view::RangeFlameQuestion>(&question))
    return is_long_range(*flame);
  return std::holds_alternative<view::SettingsQuestion>(question) ||
         std::holds_alternative<view::AdviceQuestion>(question) ||
         std::holds_alternative<view::TogetherQuestion>(question);
}

Result<ViewedPart> View::part_between(DeviceName name, Position from, Position to) const {
  if (const Status exists = check(name); !exists) return exists.error();
  if (from > to || to >= scale(name).positions)
    return Error{ErrorCode::usage, "there is no such range", "", "load the page again"};
  Result<ViewedPart> part = part_over(name, from, to + 1);
  // Too much to be read at once.
  if (!part && part.error().code == ErrorCode::usage && find(name).indexed != nullptr)
    return ViewedPart{};
  return part;
}

Result<std::string> View::answer_to(const view::SinglesQuestion& question) const {
  if (const Status exists = check(question.device, question.by); !exists) return exists.error();
  const SinglesQuery query{question.from,        question.to,           question.axis,
                           question.least_bytes, question.least_length, question.most};
  const Device& device = find(question.device);
  if (device.indexed != nullptr) {
    const Result<view::Singles> singles = device.indexed->singles(question.by, query);
    if (!singles) return singles.error();
    return view::singles_json(singles.value());
  }
  const DeviceView& view = *device.whole;
  const AllocationColumns& rows = view.record().allocations;
  const Grouping& grouping = view.grouped(question.by).grouping;
  const view::AllocationSource source = ViewedPart{&view, nullptr}.source();
  const SinglesPage page = find_singles(view.record(), view.live(), view.timeline().times(), query);
  const auto handle_of = [&](std::uint32_t stream) {
    return stream < view.store().stream_count() ? view.store().stream_handle(stream) : 0;
  };
  view::Singles singles;
  singles.matches = page.matches;
  singles.rows.reserve(page.rows.size());
  for (const AllocationId row : page.rows) {
    singles.rows.push_back(
        {row.index, rows.size_bytes[row.index], rows.requested_bytes[row.index],
         source.shown_birth(row.index), source.shown_death(rows.free_requested_event[row.index]),
         grouping.group_of_allocation[row.index], handle_of(rows.stream[row.index])});
  }
  return view::singles_json(singles);
}

Result<std::string> View::answer_to(const view::RangeQuestion& question, LongWork* work) const {
  if (work != nullptr) work->begin("reading the range");
  const Result<ViewedPart> part = part_between(question.device, question.from, question.to);
  if (!part) return part.error();
  if (part.value().view == nullptr)
    return long_range(*find(question.device).indexed, question.from, question.to, work);
  const DeviceView& view = *part.value().view;
  const LiveChanges& allocated = view.timeline().allocated();
  const Position from = part.value().local(question.from);
  const Position to = part.value().local(question.to);
  const LiveRange most = allocated.range(from, to + 1);
  view::RangeFacts facts;
  facts.from = question.from;
  facts.to = question.to;
  facts.from_bytes = allocated.bytes_at(from);
  facts.to_bytes = allocated.bytes_at(to);
  facts.peak_bytes = most.max_bytes;
  facts.peak_position = question.from + (most.max_position - from);
  return view::range_json(view.store(), facts, changes_in(view.record(), view.live(), from, to));
}

Result<std::string> View::answer_to(const view::RangeFlameQuestion& question,
                                    LongWork* work) const {
  if (work != nullptr) work->begin("reading the range");
  const Result<ViewedPart> part = part_between(question.device, question.from, question.to);
  if (!part) return part.error();
  if (part.value().view == nullptr) {
    const LongDevice& device = *find(question.device).indexed;
    const Result<Flame> flame = LongRange(device, question.from, question.to)
                                    .flame(question.part, question.by, goes_on(work));
    if (!flame) return flame.error();
    return view::flame_json(device.store(), flame.value(), question.to);
  }
  const DeviceView& view = *part.value().view;
  std::vector<AllocationId> rows;
  visit_range(view.record(), view.live(), part.value().local(question.from),
              part.value().local(question.to), [&](const RangeRow& row) {
                if (row.is_in(question.part)) rows.emplace_back(row.row);
              });
  FlameOptions options;
  options.by = question.by;
  return view::flame_json(view.store(), flame_of(view.store(), view.record(), rows, options),
                          question.to);
}

Result<std::string> View::answer_to(const view::SettingsQuestion& question, LongWork* work) const {
  if (const Status exists = check(question.device); !exists) return exists.error();
  const DeviceAdvice& tried_on = advice(question.device);
  view::SimulatedSettings settings;
  const Result<WhatIf> tried =
      tried_on.settings({std::begin(kTriedSettings), std::end(kTriedSettings)}, work);
  if (!tried || tried.value().devices.empty()) {
    settings.why_not =
        tried ? "Nothing of this device can be simulated." : tried.error().sentence();
    return view::settings_json(settings);
  }
  const DeviceWhatIf& found = tried.value().devices.front();
  settings.is_exact = found.verified.is_exact();
  for (const WhatIfRun& run : found.runs) {
    settings.runs.push_back(
        {run.alloc_conf, run.result.peak_reserved_bytes, run.result.num_ooms(), run.is_recorded});
  }
  if (const Result<std::shared_ptr<const Recording>> recording = tried_on.recording())
    settings.part = recording.value()->store().facts().device(found.device).excerpt;
  return view::settings_json(settings);
}

}  // namespace gpumemprof
