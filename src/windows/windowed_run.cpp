#include "windows/windowed_run.h"

#include <algorithm>
#include <optional>

#include "analysis/code/shown_file.h"
#include "event/rules/plausible.h"
#include "event/sinks/forwarding_sink.h"
#include "windows/device_events.h"

namespace gpumemprof {
namespace {

// Of a device that nobody asks about.
class Nobody final : public WindowVisitor {
  void visit(KeptRun& /*run*/, const Window& /*window*/) override {}
};

}  // namespace

// One delivery of the run. The first one fills the store; later ones find everything there.
class WindowedRun::Pass final : public ForwardingSink {
 public:
  using VisitorOf = std::function<WindowVisitor&(DeviceIndex)>;

  Pass(WindowedRun& run, Order order, VisitorOf visitor_of)
      : ForwardingSink(run.store_),
        run_(run),
        store_(run.store_),
        order_(order),
        visitor_of_(std::move(visitor_of)) {}

  std::uint32_t add_label_set(std::span<const Label> labels) override;
  void add_module(const ModuleLabel& module) override {
    ends_flush_ = true;
    if (order_ == Order::first) store_.add_module(module);
  }
  void add_annotation(const Annotation& annotation) override {
    ends_flush_ = true;
    if (order_ == Order::first) store_.add_annotation(annotation);
  }
  void set_settings(const AllocatorSettings& settings) override {
    if (order_ == Order::first) store_.set_settings(settings);
  }
  void set_origin(const Origin& origin) override {
    if (order_ == Order::first) store_.set_origin(origin);
  }
  void add_events(DeviceIndex device, EventColumns&& events) override;
  void add_segment(StateEdge edge, const SegmentState& segment,
                   std::span<const BlockState> blocks) override {
    if (edge == StateEdge::start) pass(segment.device).add_start(segment, blocks);
  }
  void add_lost_events(const LostEvents& lost) override {
    ends_flush_ = true;
    pass(lost.device).add(lost);
  }
  void add_sample(const DeviceSample& sample) override {
    ends_flush_ = true;
    samples_.push_back(sample);
    if (order_ == Order::first) store_.add_sample(sample);
  }
  void add_labelling(const Labelling& labelling) override {
    ends_flush_ = true;
    ++labellings_;
    Labelling mine = labelling;
    if (!run_.is_surveyed_ && labelling.set < run_.last_use_.size()) {
      run_.last_use_[labelling.set] = labellings_;
      mine.set = run_.rows_of_sets_[labelling.set];
    }
    pass(labelling.device).add(mine);
    if (!run_.is_surveyed_) run_.surveys_.at(labelling.device)->add(labelling);
  }
  void add_phase_mark(const PhaseMark& mark) override {
    ends_flush_ = true;
    pass(mark.device).add(mark);
  }

  // The driver may be sampled before the device has an event.
  void hand_over_samples();
  // Checkpoints are made of these devices.
  void make_checkpoints(IndexTaker& taker, Summaries& summaries) {
    taker_ = &taker;
    summaries_ = &summaries;
  }
  void offer_checkpoint(IndexTaker::Spot spot);
  void finish() {
    for (auto& [device, pass] : passes_) pass->finish();
  }
  [[nodiscard]] std::map<DeviceIndex, std::unique_ptr<DevicePass>>& passes() { return passes_; }

  DevicePass& pass(DeviceIndex device);

 private:
  std::uint8_t add_surveyed_set(std::span<const Label> labels);
  void forget_label_sets();

  WindowedRun& run_;
  Store& store_;
  Order order_;
  VisitorOf visitor_of_;
  std::map<DeviceIndex, std::unique_ptr<DevicePass>> passes_;
  std::vector<DeviceSample> samples_;  // that no survey has yet
  std::uint32_t label_sets_ = 0;
  // After the survey: rows of the store's sets.
  std::vector<std::uint32_t> last_use_of_rows_;
  std::vector<std::uint32_t> free_rows_;
  std::uint32_t labellings_ = 0;
  std::uint64_t labels_ = 0;  // that were added since sets were last forgotten
  bool ends_flush_ = false;
  IndexTaker* taker_ = nullptr;
  Summaries* summaries_ = nullptr;
  std::uint32_t checkpoints_ = 0;
  std::uint64_t since_flush_ = 0;  // events
};

// A set of labels belongs to a step: there are as many as steps. The survey only asks whether they
// are those of training, so one set of each kind is enough; later, another set takes the place of
// one after its last use.
std::uint32_t WindowedRun::Pass::add_label_set(std::span<const Label> labels) {
  constexpr std::uint64_t kManyLabels = 1U << 18U;
  const std::uint32_t number = label_sets_++;
  if (!run_.is_surveyed_) {
    run_.last_use_.push_back(0);
    run_.rows_of_sets_.push_back(add_surveyed_set(labels));
    run_.surveyed_label_sets_->add(labels);
    return number;
  }
  labels_ += labels.size();
  if (labels_ > kManyLabels) {
    labels_ = labels.size();
    forget_label_sets();
  }
  std::uint32_t row = static_cast<std::uint32_t>(last_use_of_rows_.size());
  if (!free_rows_.empty()) {
    row = free_rows_.back();
    free_rows_.pop_back();
  } else {
    last_use_of_rows_.push_back(0);
  }
  // A file that grew meanwhile has more.
  last_use_of_rows_[row] = number < run_.last_use_.size() ? run_.last_use_[number] : kNoEvent;
  if (row < store_.label_set_count()) {
    store_.put_label_set(row, labels);
  } else {
    store_.add_label_set(labels);
  }
  return row;
}

// The row of a set that stands for it.
std::uint8_t WindowedRun::Pass::add_surveyed_set(std::span<const Label> labels) {
  const auto trains = [](const Label& label) {
    return label.kind == LabelKind::gradient || label.kind == LabelKind::optimizer_state;
  };
  const auto found = std::ranges::find_if(labels, trains);
  const std::size_t first =
      found == labels.end() ? 0 : static_cast<std::size_t>(found - labels.begin());
  const std::span<const Label> label =
      labels.subspan(first, std::min<std::size_t>(labels.size(), 1));
  const std::optional<LabelKind> kind =
      label.empty() ? std::nullopt : std::optional(label.front().kind);
  const auto next = static_cast<std::uint8_t>(run_.surveyed_sets_.size());
  const auto [known, is_new] = run_.surveyed_sets_.try_emplace(kind, next);
  if (is_new) store_.add_label_set(label);
  return known->second;
}

void WindowedRun::Pass::forget_label_sets() {
  std::vector<bool> is_kept(store_.label_set_count());
  for (std::size_t row = 0; row < last_use_of_rows_.size(); ++row)
    is_kept[row] = last_use_of_rows_[row] > labellings_;
  for (const auto& [device, known] : passes_) {
    for (const Labelling& labelling : known->run().record().labellings) {
      if (labelling.set < is_kept.size()) is_kept[labelling.set] = true;
    }
  }
  store_.keep_label_sets(is_kept);
  free_rows_.clear();
  for (std::size_t row = last_use_of_rows_.size(); row-- > 0;) {
    if (!is_kept[row]) free_rows_.push_back(static_cast<std::uint32_t>(row));
  }
}

DevicePass& WindowedRun::Pass::pass(DeviceIndex device) {
  std::unique_ptr<DevicePass>& known = passes_[device];
  if (known) return *known;
  const auto starts = run_.starts_expandable_.find(device);
  known = std::make_unique<DevicePass>(
      device, store_, run_.sizes_, visitor_of_(device),
      starts == run_.starts_expandable_.end() ? std::nullopt : std::optional(starts->second));
  return *known;
}

void WindowedRun::Pass::hand_over_samples() {
  std::erase_if(samples_, [&](const DeviceSample& sample) {
    if (run_.is_surveyed_) return true;
    const auto survey = run_.surveys_.find(sample.device);
    if (survey == run_.surveys_.end()) return false;
    survey->second->add(sample);
    return true;
  });
}

void WindowedRun::Pass::add_events(DeviceIndex device, EventColumns&& events) {
  // The longest flush of a recorder, with room; only a recording without labels and samples gets
  // that far.
  constexpr std::uint32_t kMostOfFlush = 1U << 18U;
  if (!samples_.empty()) hand_over_samples();
  // What was said about all events before has been read.
  const bool is_between_flushes = ends_flush_ || since_flush_ > kMostOfFlush;
  if (ends_flush_) {
    for (auto& [index, known] : passes_) known->complete(known->run().events());
    ends_flush_ = false;
  }
  if (is_between_flushes) {
    offer_checkpoint(IndexTaker::Spot::here);
    since_flush_ = 0;
  }
  since_flush_ += events.size();
  for (std::int64_t& time_ns : events.time_ns) time_ns = plausible_time(time_ns);
  for (std::uint64_t& bytes : events.size_bytes) bytes = plausible_size(bytes);
  DevicePass& known = pass(device);
  known.add(events);
  known.complete(known.run().events() - std::min(known.run().events(), kMostOfFlush));
}

void WindowedRun::Pass::offer_checkpoint(IndexTaker::Spot spot) {
  if (taker_ == nullptr || !taker_->wants_checkpoint(spot)) return;
  for (auto& [device, summary] : *summaries_)
    summary->expect_checkpoint(checkpoints_, pass(device).run().events());
  ++checkpoints_;
}

WindowedRun::WindowedRun(std::string path, Deliver deliver, WindowSizes sizes)
    : path_(std::move(path)), deliver_(std::move(deliver)), sizes_(sizes) {}

WindowedRun::~WindowedRun() = default;

Result<bool> WindowedRun::survey() {
  Result<bool> done = survey(Order::first);
  // What the first segment is shows late; the settings may have changed before it.
  if (done && done.value() && !starts_expandable_.empty()) done = survey(Order::later);
  if (!done || !done.value()) return done;
  is_surveyed_ = true;
  surveyed_label_sets_.reset();
  const Status found = find_repetition_floors();
  if (!found) return found.error();
  return true;
}

Result<bool> WindowedRun::survey(Order order) {
  surveys_.clear();
  last_use_.clear();
  rows_of_sets_.clear();
  surveyed_label_sets_ = std::make_unique<SurveyedLabelSets>();
  Pass pass(*this, order, [this](DeviceIndex device) -> WindowVisitor& {
    std::unique_ptr<Survey>& survey = surveys_[device];
    survey = std::make_unique<Survey>(device, store_, *surveyed_label_sets_);
    return *survey;
  });
  if (const Status delivered = deliver_(pass); !delivered) return delivered.error();
  pass.hand_over_samples();
  const Origin& origin = store_.origin();
  if (!origin.has_start || origin.has_segments) return false;
  pass.finish();
  store_.set_program_folder(program_folder(store_));
  for (const auto& [device, known] : pass.passes()) {
    const bool assumed = store_.settings().expandable_segments;
    if (order == Order::first && known->first_segment().value_or(assumed) != assumed)
      starts_expandable_[device] = !assumed;
    Survey& survey = *surveys_[device];
    survey.take_card(known->run().record());
    survey.result().replay = known->replay();
    if (survey.result().replay.contradictions == 0) survey.leave_out_bridges();
    const DeviceFacts& facts = store_.facts().device(device);
    if (facts.alloc_retries) {
      survey.result().replay.counters.alloc_retries = facts.alloc_retries;
      survey.result().replay.counters.are_retries_counted = true;
    }
  }
  return true;
}

bool WindowedRun::is_provable(const Survey::Result& found) const {
  return !found.ooms.empty() && found.events <= kMostSimulatedEvents &&
         StreamedHistory::can_read(store_, found.start, found.replay);
}

bool WindowedRun::needs_whole_for_proof() const {
  return std::any_of(surveys_.begin(), surveys_.end(), [this](const auto& survey) {
    const Survey::Result& found = survey.second->result();
    return !found.ooms.empty() && found.events <= kMostSimulatedEvents && !is_provable(found);
  });
}

// For the devices whose failures can be proven.
WindowedRun::Histories WindowedRun::histories(Summaries& summaries) {
  Histories histories;
  if (!again_) return histories;
  for (auto& [device, summary] : summaries) {
    const Survey::Result& found = surveys_[device]->result();
    if (!is_provable(found)) continue;
    const auto deliver = [this, device = device](const StreamedHistory::Take& take) {
      DeviceEvents events(store_, device, take);
      return again_(events);
    };
    const StreamedHistory::Run run{device, &found.start, &found.replay, found.events};
    StreamedHistory& history = histories.try_emplace(device, store_, run, deliver).first->second;
    summary->let_read_again(history);
  }
  return histories;
}

// The counts of the run, and the devices that the options ask about.
Result<Overview> WindowedRun::begin_overview(const OverviewOptions& options,
                                             std::vector<DeviceIndex>& asked) const {
  Overview overview;
  overview.path = path_;
  std::string known_devices;
  for (const auto& [device, survey] : surveys_) {
    const Survey::Result& found = survey->result();
    overview.events += found.events;
    overview.allocations += found.replay.counters.allocations;
    overview.frees += found.replay.counters.frees;
    known_devices += (known_devices.empty() ? "" : ", ") + store_.device_name(device);
    if (options.device && *options.device != device) continue;
    if (options.at.kind == AskedMoment::Kind::event && options.at.event >= found.events)
      return no_such_event(path_, store_.device_name(device), options.at.event, found.events);
    asked.push_back(device);
  }
  if (options.device && asked.empty()) return no_such_device(path_, *options.device, known_devices);
  return overview;
}

Result<Overview> WindowedRun::overview(const OverviewOptions& options, IndexTaker* taker,
                                       const LeaksOptions& leaks) {
  std::vector<DeviceIndex> asked;
  Result<Overview> begun = begin_overview(options, asked);
  if (!begun) return begun;
  Overview overview = std::move(begun).value();
  Summaries summaries;
  for (const DeviceIndex device : asked)
    summaries.emplace(
        device, std::make_unique<Summary>(store_, surveys_[device]->result(), options.at, taker));
  at_end_ = Overview();
  for (auto& [device, summary] : summaries) summary->look_for_leaks();
  const Histories proofs = histories(summaries);
  const Status summed = sum_up(summaries, taker, leaks);
  if (!summed) return summed.error();
  std::vector<DeviceExtent> extents;
  extents.reserve(surveys_.size());
  for (const auto& [device, survey] : surveys_) extents.push_back(survey->result().extent);
  for (auto& [device, summary] : summaries) {
    surveys_[device]->result().spans = std::move(summary->overview().sources.spans);
    overview.devices.push_back(std::move(summary->overview()));
    at_end_.devices.push_back(std::move(summary->at_end()));
  }
  overview.completeness = find_completeness(store_, extents);
  return overview;
}

// Where repetitions are not the steps of the run, their floors take another pass.
Status WindowedRun::find_repetition_floors() {
  std::map<DeviceIndex, FloorSurvey> unknown;
  for (auto& [device, survey] : surveys_) {
    Survey::Result& found = survey->result();
    if (found.repetitions.are_steps_of_run || found.repetitions.count == 0) continue;
    unknown.try_emplace(device, store_, found.repetitions);
  }
  if (unknown.empty()) return Done{};
  Nobody nobody;
  Pass pass(*this, Order::later, [&](DeviceIndex device) -> WindowVisitor& {
    const auto survey = unknown.find(device);
    return survey == unknown.end() ? static_cast<WindowVisitor&>(nobody) : survey->second;
  });
  if (const Status delivered = deliver_(pass); !delivered) return delivered.error();
  pass.finish();
  for (auto& [device, survey] : unknown)
    surveys_[device]->result().repetition_floors = survey.take_floors();
  return Done{};
}

Status WindowedRun::sum_up(Summaries& summaries, IndexTaker* taker, const LeaksOptions& leaks) {
  Nobody nobody;
  Pass pass(*this, Order::later, [&](DeviceIndex device) -> WindowVisitor& {
    const auto summary = summaries.find(device);
    return summary == summaries.end() ? static_cast<WindowVisitor&>(nobody) : *summary->second;
  });
  if (taker != nullptr) pass.make_checkpoints(*taker, summaries);
  pass.offer_checkpoint(IndexTaker::Spot::start);
  if (const Status delivered = deliver_(pass); !delivered) return delivered.error();
  pass.offer_checkpoint(IndexTaker::Spot::end);
  pass.finish();
  for (auto& [device, summary] : summaries) {
    DeviceRecord& record = pass.pass(device).run().record();
    // The verdict needs the segments only; what it is made from takes the place of the window.
    record.events = EventColumns();
    summary->judge_leaks(record, leaks);
  }
  return Done{};
}

const Survey::Result* WindowedRun::found(DeviceIndex device) const {
  const auto survey = surveys_.find(device);
  return survey == surveys_.end() ? nullptr : &survey->second->result();
}

std::vector<DeviceIndex> WindowedRun::devices() const {
  std::vector<DeviceIndex> devices;
  devices.reserve(surveys_.size());
  for (const auto& [device, survey] : surveys_) devices.push_back(device);
  return devices;
}

Status WindowedRun::show_windows(const std::map<DeviceIndex, WindowTaker*>& takers) {
  Summaries summaries;
  for (const auto& [device, taker] : takers) {
    Survey::Result& found = surveys_.at(device)->result();
    auto summary = std::make_unique<Summary>(store_, found, AskedMoment());
    summary->let_take(*taker);
    summaries.emplace(device, std::move(summary));
  }
  return sum_up(summaries, nullptr);
}

Result<std::vector<RunPart>> WindowedRun::take_parts(
    const std::map<DeviceIndex, ExcerptRange>& ranges) {
  Summaries summaries;
  std::vector<std::unique_ptr<PartTaker>> takers;
  for (const auto& [device, range] : ranges) {
    Survey::Result& found = surveys_.at(device)->result();
    Summary& summary =
        *summaries.emplace(device, std::make_unique<Summary>(store_, found, AskedMoment()))
             .first->second;
    summary.let_take(*takers.emplace_back(std::make_unique<PartTaker>(store_, device, range)));
  }
  const Status summed = sum_up(summaries, nullptr);
  std::vector<RunPart> parts;
  for (const std::unique_ptr<PartTaker>& taker : takers) {
    RunPart& part = taker->part();
    Survey::Result& found = surveys_.at(part.device)->result();
    found.spans = std::move(summaries.at(part.device)->overview().sources.spans);
    part.samples = found.samples;
    part.lost_events = found.extent.lost_events;
    part.spans = found.spans;
    parts.push_back(std::move(part));
  }
  if (!summed) return summed.error();
  return parts;
}

}  // namespace gpumemprof
