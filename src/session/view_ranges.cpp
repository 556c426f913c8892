// What the page asks about a range of a device, and about its pool under other settings.
#include <string>

#include "analysis/range/range_changes.h"
#include "analysis/range/singles.h"
#include "session/view.h"

namespace gpumemprof {

namespace {

// Each changes how free memory is kept, split or returned.
constexpr const char* kTriedSettings[] = {"expandable_segments:True", "max_split_size_mb:128",
                                          "garbage_collection_threshold:0.8",
                                          "roundup_power2_divisions:8"};

}  // namespace

Result<ViewedPart> View::part_between(DeviceName name, Position from, Position to) const {
  if (const Status exists = check(name); !exists) return exists.error();
  if (from > to || to >= scale(name).positions)
    return Error{ErrorCode::usage, "there is no such range", "", "load the page again"};
  Result<ViewedPart> part = part_over(name, from, to + 1);
  if (part || part.error().code != ErrorCode::usage || find(name).indexed == nullptr) return part;
  return Error{ErrorCode::usage,
               "this range has " + std::to_string(to - from) +
                   " events; of a long recording at most " +
                   std::to_string(LongDevice::kMostListedEvents) + " are read for a range",
               "", "select a shorter one, or compare its two ends in Compare"};
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

Result<std::string> View::answer_to(const view::RangeQuestion& question) const {
  const Result<ViewedPart> part = part_between(question.device, question.from, question.to);
  if (!part) return part.error();
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

Result<std::string> View::answer_to(const view::RangeFlameQuestion& question) const {
  const Result<ViewedPart> part = part_between(question.device, question.from, question.to);
  if (!part) return part.error();
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

Result<std::string> View::answer_to(const view::SettingsQuestion& question) const {
  if (const Status exists = check(question.device); !exists) return exists.error();
  view::SimulatedSettings settings;
  const Device& device = find(question.device);
  if (device.whole == nullptr) {
    settings.why_not = "This run is too long to be simulated in the page: use gpumemprof simulate.";
    return view::settings_json(settings);
  }
  WhatIfOptions options;
  options.device = device.whole->record().device;
  options.alloc_confs.assign(std::begin(kTriedSettings), std::end(kTriedSettings));
  const Result<WhatIf> tried = files_[question.device.file].run.whole->whatif(options);
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
  return view::settings_json(settings);
}

}  // namespace gpumemprof
