#include "windows/labels/label_survey.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <type_traits>

namespace gpumemprof {
namespace {

static_assert(std::is_trivially_copyable_v<Label>);

constexpr std::uint32_t kNeverApplied = kNoEvent;

// What was live at the start comes before all that is born.
std::uint64_t place_in_order(std::uint32_t birth, std::size_t row) {
  return birth == kNoEvent ? row : (std::uint64_t{1} << 32U) + birth;
}

bool is_shown_before(std::uint32_t birth, const Window& window) {
  return birth == kNoEvent ? window.first > 0 : birth < window.first;
}

std::uint64_t key_of_row(const LocalView& view, std::size_t row) {
  return view.birth(row) == kNoEvent ? KeptRun::start_key(row) : view.birth(row);
}

// Rows are in order of their births, those of the start first. None: it is not kept.
std::optional<std::size_t> row_of_key(const LocalView& view, std::uint64_t key) {
  const std::size_t rows = view.record().allocations.size();
  if (key >= KeptRun::start_key(0)) {
    const std::size_t row = key - KeptRun::start_key(0);
    return row < rows && view.birth(row) == kNoEvent ? std::optional(row) : std::nullopt;
  }
  std::size_t first = 0;
  for (std::size_t count = rows; count > 0;) {
    const std::size_t half = count / 2;
    const std::uint32_t birth = view.birth(first + half);
    if (birth == kNoEvent || birth < key) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first < rows && view.birth(first) == key ? std::optional(first) : std::nullopt;
}

}  // namespace

void SurveyedLabelSets::add(std::span<const Label> labels) {
  constexpr std::size_t kMostRecent = std::size_t{1} << 17U;
  if (recent_.size() + labels.size() > kMostRecent) forget();
  in_memory_.push_back(static_cast<std::uint32_t>(places_.size()));
  places_.push_back({recent_.size(), static_cast<std::uint32_t>(labels.size()), true});
  recent_.insert(recent_.end(), labels.begin(), labels.end());
}

void SurveyedLabelSets::forget() {
  if (has_failed_) return;
  const auto offset = file_.append(std::as_bytes(std::span(recent_)));
  if (!offset) {
    has_failed_ = true;
    return;
  }
  for (const std::uint32_t set : in_memory_)
    places_[set] = {*offset + places_[set].offset * sizeof(Label), places_[set].count, false};
  in_memory_.clear();
  recent_.clear();
}

std::span<const Label> SurveyedLabelSets::get(std::uint32_t set) {
  if (set >= places_.size()) return {};
  const Place& place = places_[set];
  if (place.is_in_memory) return std::span(recent_).subspan(place.offset, place.count);
  read_.resize(place.count);
  GMP_CHECK(file_.read(place.offset, std::as_writable_bytes(std::span(read_))));
  return read_;
}

void LabelSurvey::visit(const KeptRun& run, const LocalView& view, const Window& window,
                        const std::vector<PhaseSpan>& spans) {
  // A forged file could repeat a large set forever, see take_labels().
  budget_ += std::uint64_t{64} * (run.events() - events_);
  if (!pending_.empty()) apply_pending(run, view, window);
  if (labels_.size() > 0) note_places(view, window, spans);
  events_ = run.events();
}

void LabelSurvey::apply_pending(const KeptRun& run, const LocalView& view, const Window& window) {
  std::ranges::stable_sort(pending_, {}, &Labelling::before_event);
  const AllocationColumns& allocations = view.record().allocations;
  const std::uint32_t first = pending_.front().before_event;
  rows_.clear();
  std::size_t next = 0;
  for (const Labelling& labelling : pending_) {
    // As in a recording that is read whole.
    if (labelling.before_event < last_position_) continue;
    last_position_ = labelling.before_event;
    while (next < allocations.size() &&
           (view.birth(next) == kNoEvent || view.birth(next) < labelling.before_event)) {
      const std::uint32_t death = view.death(next);
      if (death == kNoEvent || death >= first)
        rows_.insert_or_assign(allocations.address[next], static_cast<std::uint32_t>(next));
      ++next;
    }
    if (labelling.set >= last_applied_.size())
      last_applied_.resize(labelling.set + 1, kNeverApplied);
    const std::uint32_t applied = last_applied_[labelling.set];
    last_applied_[labelling.set] = labelling.before_event;
    const bool has_births =
        applied == kNeverApplied || applied < run.recent() ||
        (next > 0 && view.birth(next - 1) != kNoEvent && view.birth(next - 1) >= applied);
    if (has_births) apply(labelling, view, window);
  }
  pending_.clear();
}

void LabelSurvey::apply(const Labelling& labelling, const LocalView& view, const Window& window) {
  const std::span<const Label> set = sets_.get(labelling.set);
  if (set.size() > budget_) return;
  budget_ -= set.size();
  for (const Label& label : set) name(label, labelling.before_event, view, window);
}

void LabelSurvey::name(const Label& label, std::uint32_t before_event, const LocalView& view,
                       const Window& window) {
  const std::uint32_t* row = rows_.find(label.address);
  if (row == nullptr || label.address == FlatMap<std::uint32_t>::kEmpty) return;
  const std::uint32_t death = view.death(*row);
  if (death != kNoEvent && death < before_event) return;
  if (label.kind == LabelKind::input && is_output(view.record(), *row)) return;
  const std::uint64_t key = key_of_row(view, *row);
  const LateLabel* known = labels_.find(key);
  if (known != nullptr) {
    if (label_rank(label.kind) < label_rank(known->kind)) return;
    if (known->kind == label.kind && known->name == label.name) return;
  }
  labels_.insert_or_assign(key, {label.kind, label.name});
  if (is_shown_before(view.birth(*row), window))
    late_.insert_or_assign(key, {label.kind, label.name});
}

bool LabelSurvey::is_output(const DeviceRecord& record, std::size_t row) {
  const StackId stack = record.allocations.stack[row];
  if (stack.is_none()) return false;
  if (stack.index >= kinds_.size()) kinds_ = code_kinds(store_);
  return is_made_by_model(kinds_[stack.index]);
}

// A label is final once its allocation is freed, and the phase of a birth once its window is shown.
void LabelSurvey::note_places(const LocalView& view, const Window& window,
                              const std::vector<PhaseSpan>& spans) {
  FlatMap<LateLabel> rest;
  labels_.for_each([&](std::uint64_t key, const LateLabel& label) {
    const std::optional<std::size_t> row = row_of_key(view, key);
    if (!row) return;
    const std::uint32_t birth = view.birth(*row);
    const bool is_final = view.death(*row) != kNoEvent && (birth == kNoEvent || birth < window.end);
    if (is_final || window.is_last) {
      note_place(view, *row, label, spans);
    } else {
      rest.insert_or_assign(key, label);
    }
  });
  labels_ = std::move(rest);
}

void LabelSurvey::note_place(const LocalView& view, std::size_t row, const LateLabel& label,
                             const std::vector<PhaseSpan>& spans) {
  const AllocationColumns& allocations = view.record().allocations;
  const StackId stack = allocations.stack[row];
  if (stack.is_none()) return;
  const std::uint32_t birth = view.birth(row);
  const std::uint64_t order = place_in_order(birth, row);
  // The last allocation counts, in order of births.
  const auto is_last = [&](FlatMap<std::uint64_t>& rows, std::uint32_t place) {
    std::uint64_t& last = rows.find_or_insert(place, order);
    if (last > order) return false;
    last = order;
    return true;
  };
  if (label.kind == LabelKind::input && is_last(input_rows_, stack.index))
    places_.inputs.insert_or_assign(stack.index, label.name);
  if (label.kind != LabelKind::buffer || birth == kNoEvent) return;
  const PhaseSpan* const span = span_at(spans, birth);
  if (span == nullptr || span->phase != Phase::forward) return;
  const std::uint32_t frame = store_.stacks().frame(stack).index;
  if (is_last(buffer_rows_, frame))
    places_.buffers.insert_or_assign(frame, {label.name, allocations.requested_bytes[row]});
}

}  // namespace gpumemprof
