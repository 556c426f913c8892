#include "analysis/advice/completion/completion.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/advice/completion/known_optimizer.h"
#include "analysis/advice/completion/run_extension.h"
#include "analysis/advice/completion/step_alignment.h"
#include "analysis/advice/completion/step_range.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

bool is_of_batch(MemorySource source) {
  return source == MemorySource::activations || source == MemorySource::temporaries ||
         source == MemorySource::inputs;
}

class Completion {
 public:
  Completion(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& spans)
      : store_(store),
        record_(record),
        rows_(record.allocations),
        spans_(spans),
        steps_(find_steps(spans, record.events.size())) {}

  RunEnd run() {
    RunEnd end;
    const Column<Action>& actions = record_.events.action;
    for (std::uint32_t event = 0; event < actions.size(); ++event) {
      if (actions[event] != Action::oom) continue;
      if (failed_ == kNone) failed_ = event;
      last_failed_ = event;
    }
    if (failed_ == kNone || goes_on()) return end;
    end.is_cut_short = true;
    find_broken();
    if (broken_ == nullptr) {
      end.why_not = "The run ran out of memory before its first training step.";
    } else if (whole_ != nullptr) {
      end.completed = from_whole_step();
      if (!end.completed)
        end.why_not =
            "The step that ran out of memory does not make the same allocations as the steps "
            "before it, so how much more it would have needed is not known.";
    } else {
      end.completed = from_first_backward();
      if (!end.completed) end.why_not = why_first_step();
    }
    return end;
  }

 private:
  // Whole steps ran after the last error: the program recovered by itself.
  [[nodiscard]] bool goes_on() const {
    return std::any_of(steps_.begin(), steps_.end(), [&](const StepRange& step) {
      return step.has_backward && step.events.first > last_failed_;
    });
  }

  void find_broken() {
    const bool steps_silently = std::none_of(
        steps_.begin(), steps_.end(), [](const StepRange& step) { return step.has_optimizer; });
    for (const StepRange& step : steps_) {
      if (step.events.first <= failed_ && failed_ < step.events.end) {
        broken_ = &step;
        break;
      }
      const bool is_whole = step.has_backward && (step.has_optimizer || steps_silently);
      if (is_whole && step.events.end <= failed_) whole_ = &step;
    }
    if (broken_ == nullptr) {
      whole_ = nullptr;
    } else if (is_behind_its_step()) {
      // The next step's first request failed.
      whole_ = broken_;
      broken_events_ = {failed_, failed_};
    } else {
      broken_events_ = {broken_->events.first, failed_};
    }
  }

  // Whether the failed step was past its optimizer step; evaluation may follow it.
  [[nodiscard]] bool is_behind_its_step() const {
    if (!broken_->has_optimizer || !optimizer_file(store_, failed_stack()).empty()) return false;
    Phase last = Phase::other;
    for (const PhaseSpan& span : spans_) {
      if (span.first_event >= failed_) break;
      if (span.phase != Phase::other) last = span.phase;
    }
    return last == Phase::optimizer_step || last == Phase::evaluation;
  }

  [[nodiscard]] StackId failed_stack() const { return record_.events.stack[failed_]; }

  [[nodiscard]] Phase phase_at(std::uint32_t event) const {
    return index_.phase(index_.run_of(event));
  }

  [[nodiscard]] MemorySource source(std::uint32_t row) const {
    return record_.labels.source_in_step(row);
  }
  [[nodiscard]] std::uint32_t death(std::uint32_t row) const {
    return rows_.free_requested_event[row];
  }

  // --- From an earlier whole step ---

  std::optional<CompletedRun> from_whole_step() {
    const std::optional<StepAlignment> found = align_steps(record_, whole_->events, broken_events_);
    if (!found) return std::nullopt;
    const EventRange rest{found->resume_event, whole_->events.end};
    RunExtension extension(record_, spans_, failed_);
    find_gradient_sizes(whole_->events);
    // What the first step allocates permanently is already live.
    const auto takes = [&](std::uint32_t row) {
      const bool is_for_good = death(row) >= rest.end;
      const bool is_made_once =
          source(row) == MemorySource::optimizer_state || source(row) == MemorySource::workspace;
      return !(is_for_good && is_made_once);
    };
    const auto resize = [&](std::uint32_t row) {
      const std::uint64_t bytes = rows_.requested_bytes[row];
      constexpr std::uint64_t kScalarBytes = 4096;
      if (!is_of_batch(source(row)) || bytes < kScalarBytes || gradient_sizes_.contains(bytes))
        return bytes;
      return static_cast<std::uint64_t>(
          std::llround(static_cast<double>(bytes) * found->size_factor));
    };
    const std::uint32_t step = broken_ == whole_ ? whole_->step + 1 : broken_->step;
    const std::vector<std::uint32_t> batch = load_batch(extension, *found, step);
    resumed_ = extension.next_event();
    const bool is_in_place = keeps_gradients(*found);
    for (const std::uint32_t row : extension.repeat(rest, step, spans_, takes, resize)) {
      // Added to an existing gradient.
      if (is_in_place && extension.source(row) == MemorySource::gradients)
        extension.bury(row, extension.birth(row) + 1);
    }
    for (std::size_t part = 0; part < batch.size(); ++part) {
      const std::uint32_t at = moment(death(found->missing_batch[part]), rest);
      if (at != kNoEvent) extension.bury(batch[part], at);
    }
    bury_as_before(extension, *found, rest);
    for (const auto& [row, like] : found->like) extension.relabel(row, like);
    CompletedRun run;
    run.resumed_at = failed_;
    run.how = "The run ran out of memory in step " + std::to_string(step) +
              "; what that step would still have allocated is taken from step " +
              std::to_string(whole_->step) + ", which was complete.";
    run.is_scaled = found->size_factor != 1;
    run.record = extension.take_record();
    run.spans = extension.take_spans();
    return run;
  }

  // Loads what was not yet loaded of the step's batch; returns the new rows.
  [[nodiscard]] std::vector<std::uint32_t> load_batch(RunExtension& extension,
                                                      const StepAlignment& found,
                                                      std::uint32_t step) const {
    std::vector<std::uint32_t> loaded;
    if (found.missing_batch.empty()) return loaded;
    extension.begin_span(Phase::other, step);
    for (const std::uint32_t row : found.missing_batch) {
      const double bytes = static_cast<double>(rows_.requested_bytes[row]) * found.size_factor;
      loaded.push_back(extension.add(static_cast<std::uint64_t>(std::llround(bytes)),
                                     rows_.stack[row], MemorySource::inputs));
      // A batch that outlived its step is replaced.
      if (extension.lives(row)) extension.free(row);
    }
    return loaded;
  }

  // When the completed step does what the whole step did at an event.
  [[nodiscard]] std::uint32_t moment(std::uint32_t event, EventRange rest) const {
    if (event == kNoEvent || event >= rest.end) return kNoEvent;
    return event < rest.first ? resumed_ : resumed_ + (event - rest.first);
  }

  // Gradients of the previous step are live in backward: they are zeroed in place.
  [[nodiscard]] bool keeps_gradients(const StepAlignment& found) const {
    if (failed_ == 0 || phase_at(failed_ - 1) != Phase::backward) return false;
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      const bool is_of_whole = birth != kNoEvent && birth >= whole_->events.first &&
                               birth < whole_->events.end && !found.like.contains(row);
      if (is_of_whole && source(row) == MemorySource::gradients && death(row) > failed_)
        return true;
    }
    return false;
  }

  void find_gradient_sizes(EventRange events) {
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      const bool is_in = birth != kNoEvent && birth >= events.first && birth < events.end;
      if (is_in && source(row) == MemorySource::gradients)
        ++gradient_sizes_[rows_.requested_bytes[row]];
    }
  }

  // What was live when memory ran out is freed where the whole step freed its counterpart.
  void bury_as_before(RunExtension& extension, const StepAlignment& found, EventRange rest) {
    const std::map<std::pair<StackId, std::uint64_t>, std::uint32_t> older =
        freed_from_step_before(rest);
    const std::uint32_t backward = moment(first_backward_in(rest), rest);
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      if (birth == kNoEvent || birth >= failed_ || !extension.lives(row)) continue;
      if (const auto like = found.like.find(row); like != found.like.end()) {
        const std::uint32_t at = moment(death(like->second), rest);
        if (at != kNoEvent) extension.bury(row, at);
        continue;
      }
      const bool is_of_step_before = birth >= whole_->events.first && birth < whole_->events.end;
      if (!is_of_step_before) continue;
      const auto same = older.find({rows_.stack[row], rows_.requested_bytes[row]});
      if (same != older.end()) {
        extension.bury(row, moment(same->second, rest));
      } else if (source(row) == MemorySource::gradients && backward != kNoEvent) {
        // The whole step was the first: assume zeroing before the next backward, as is usual.
        extension.bury(row, backward);
      }
    }
  }

  // When the whole step, from `rest` on, freed what the step before it left live.
  [[nodiscard]] std::map<std::pair<StackId, std::uint64_t>, std::uint32_t> freed_from_step_before(
      EventRange rest) const {
    std::map<std::pair<StackId, std::uint64_t>, std::uint32_t> freed;
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      const bool is_before = birth != kNoEvent && birth < whole_->events.first;
      if (is_before && death(row) >= rest.first && death(row) < rest.end)
        freed.emplace(std::pair(rows_.stack[row], rows_.requested_bytes[row]), death(row));
    }
    return freed;
  }

  [[nodiscard]] std::uint32_t first_backward_in(EventRange events) const {
    for (const PhaseSpan& span : spans_) {
      if (span.phase == Phase::backward && span.first_event >= events.first &&
          span.first_event < events.end)
        return span.first_event;
    }
    return kNoEvent;
  }

  // --- From the first step's forward and backward ---

  // If the optimizer's first step failed. Its state follows from the gradients it steps with; then
  // another step is run, with the state live from its beginning.
  std::optional<CompletedRun> from_first_backward() {
    const StackId stack = failed_stack();
    const std::uint32_t states = states_of_optimizer(optimizer_file(store_, stack));
    if (!broken_->has_backward || states == 0) return std::nullopt;
    const std::vector<std::uint32_t> gradients = live_gradients();
    if (gradients.empty()) return std::nullopt;
    RunExtension extension(record_, spans_, failed_);
    extension.begin_span(Phase::optimizer_step, broken_->step);
    add_missing_states(extension, gradients, states, stack);
    std::uint64_t sum = 0;
    for (const std::uint32_t row : gradients) sum += rows_.requested_bytes[row];
    add_step_temporaries(extension, gradients, stack);
    extension.begin_span(Phase::other, broken_->step);
    for (const std::uint32_t row : gradients) extension.free(row);
    run_again(extension, gradients, stack);
    CompletedRun run;
    run.resumed_at = failed_;
    run.how =
        "The run ran out of memory in its first optimizer step; the rest of the optimizer's state "
        "is derived from the parameters, and a second step from the first.";
    // Only the default stepping mode, over all parameters at once, allocates these temporaries.
    run.doubtful_low_bytes = sum;
    run.record = extension.take_record();
    run.spans = extension.take_spans();
    return run;
  }

  [[nodiscard]] std::vector<std::uint32_t> live_gradients() const {
    std::vector<std::uint32_t> gradients;
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      const bool is_live = birth != kNoEvent && birth < failed_ && death(row) > failed_;
      if (is_live && phase_at(birth) == Phase::backward) gradients.push_back(row);
    }
    return gradients;
  }

  // What the step allocated so far is state first, then temporaries.
  void add_missing_states(RunExtension& extension, const std::vector<std::uint32_t>& gradients,
                          std::uint32_t states, StackId stack) const {
    std::map<std::uint64_t, std::uint32_t> wanted;
    for (const std::uint32_t row : gradients) wanted[rows_.requested_bytes[row]] += states;
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      if (birth == kNoEvent || birth >= failed_ || death(row) < failed_) continue;
      if (phase_at(birth) != Phase::optimizer_step) continue;
      const auto found = wanted.find(rows_.requested_bytes[row]);
      if (found != wanted.end() && found->second > 0) {
        --found->second;
      } else if (found != wanted.end()) {
        extension.free(row);
      }
    }
    for (const auto& [bytes, count] : wanted) {
      for (std::uint32_t number = 0; number < count; ++number)
        extension.add(bytes, stack, MemorySource::optimizer_state);
    }
  }

  void add_step_temporaries(RunExtension& extension, const std::vector<std::uint32_t>& gradients,
                            StackId stack) const {
    std::vector<std::uint32_t> temporaries;
    temporaries.reserve(gradients.size());
    for (const std::uint32_t row : gradients)
      temporaries.push_back(
          extension.add(rows_.requested_bytes[row], stack, MemorySource::temporaries));
    for (const std::uint32_t row : temporaries) extension.free(row);
  }

  void run_again(RunExtension& extension, const std::vector<std::uint32_t>& gradients,
                 StackId stack) {
    std::uint32_t end = broken_->events.first;
    for (std::size_t index = 0; index < spans_.size(); ++index) {
      if (spans_[index].phase == Phase::backward && spans_[index].first_event < failed_)
        end = index + 1 < spans_.size() ? spans_[index + 1].first_event : failed_;
    }
    const EventRange pass{broken_->events.first, std::min(end, failed_)};
    const std::uint32_t step = broken_->step + 1;
    const auto takes = [&](std::uint32_t row) {
      return death(row) < pass.end || std::binary_search(gradients.begin(), gradients.end(), row);
    };
    const auto resize = [&](std::uint32_t row) { return rows_.requested_bytes[row]; };
    extension.begin_span(Phase::other, step);
    std::vector<std::uint32_t> batch;  // of the second step, same as that of the first
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      const bool is_batch = birth != kNoEvent && birth < pass.first && death(row) >= pass.first &&
                            death(row) < failed_;
      if (is_batch)
        batch.push_back(
            extension.add(rows_.requested_bytes[row], rows_.stack[row], MemorySource::inputs));
    }
    const std::vector<std::uint32_t> left = extension.repeat(pass, step, spans_, takes, resize);
    for (const std::uint32_t row : batch) extension.free(row);
    extension.begin_span(Phase::optimizer_step, step);
    add_step_temporaries(extension, gradients, stack);
    extension.begin_span(Phase::other, step);
    for (const std::uint32_t row : left) extension.free(row);
  }

  [[nodiscard]] std::string why_first_step() const {
    if (!broken_->has_forward) return "The run ran out of memory before its first forward pass.";
    if (!optimizer_file(store_, failed_stack()).empty())
      return "The run ran out of memory in its first optimizer step, and how much state this "
             "optimizer keeps is not known.";
    if (broken_->has_backward)
      return "The run ran out of memory in its first backward pass, so which optimizer follows, "
             "and how much state it keeps, is not known.";
    return "The run ran out of memory in its first forward pass, so how much memory the rest of "
           "forward, backward and the optimizer would need is not known.";
  }

  const Store& store_;
  const DeviceRecord& record_;
  const AllocationColumns& rows_;
  const std::vector<PhaseSpan>& spans_;
  std::vector<StepRange> steps_;
  SpanIndex index_{spans_, record_.events.size()};
  std::uint32_t failed_ = kNone;       // the first error
  std::uint32_t last_failed_ = kNone;  // and the last
  const StepRange* broken_ = nullptr;  // the step that failed
  EventRange broken_events_;
  std::uint32_t resumed_ = kNone;     // where the extension repeats the whole step
  const StepRange* whole_ = nullptr;  // the last one before it
  std::map<std::uint64_t, std::uint32_t> gradient_sizes_;
};

}  // namespace

RunEnd complete_run(const Store& store, const DeviceRecord& record,
                    const std::vector<PhaseSpan>& spans) {
  return Completion(store, record, spans).run();
}

}  // namespace gpumemprof
