// Repetitions: the parts of a run that do the same work again, so that what is live at the floor of
// one can be compared with that of the next.
//
// Training steps, as marked or recognized; without an optimizer, the backwards; in inference, the
// calls of the model by one line; in a program without modules, a line that allocates again and
// again.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/code/code_kind.h"
#include "analysis/sources/sources.h"
#include "store/store.h"

namespace gpumemprof {

enum class RepetitionKind : std::uint8_t { none, steps, backwards, calls, lines };
constexpr std::string_view repetition_name(RepetitionKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "step", "backward", "call",
                                                      "repetition"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct Repetitions {
  RepetitionKind kind = RepetitionKind::none;
  StackId line;                  // calls, lines: which
  std::vector<PhaseSpan> spans;  // numbered by repetition instead of by step
  std::uint32_t count = 0;
  bool are_steps_of_run = false;  // the spans are the phases of the run
  // calls, lines: how its beginnings are found. The spans are empty until they are.
  StackId maker;                     // lines: the stack of the allocation that begins it
  bool tells_modules_apart = false;  // calls
};

// Says where a repetition begins. Events come in order.
class CallTracker {
 public:
  CallTracker(const Store& store, const std::vector<CodeKind>& kinds);

  struct Begin {
    StackId site;               // the line that calls the model
    bool is_by_module = false;  // the same call as before, but the module begins again
  };
  [[nodiscard]] std::optional<Begin> next(const EventColumns& events, std::size_t place);
  // The store, and with it the kinds, has more stacks.
  void learn(const Store& store);

 private:
  const std::vector<CodeKind>& kinds_;
  std::vector<StackId> sites_;  // by stack
  bool is_open_ = false;
  StackId site_;
  std::uint64_t first_maker_ = 0;
};

// What repeats in a run that becomes known part by part.
class RepetitionCandidates {
 public:
  struct Free {
    std::uint32_t death = 0;
    std::uint32_t birth = 0;
  };
  // Events [begin, end) of the columns, which are those of the run from number `first` on, and what
  // is freed in them, in order of death; numbers of the run.
  void follow(const Store& store, const EventColumns& events, std::size_t begin, std::size_t end,
              std::uint32_t first, const std::vector<Free>& frees);
  // After the last event: the kind of repetition of which there are at least `fewest`; otherwise
  // the steps there are.
  [[nodiscard]] Repetitions choose(const Store& store, const std::vector<PhaseSpan>& spans,
                                   RunKind run, std::uint32_t events, std::uint32_t fewest) const;

 private:
  struct Line {
    std::uint32_t count = 0;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::uint32_t working = 0;  // times that something was made and freed before the next
  };
  struct Calls {
    std::uint32_t calls = 0;
    std::uint32_t by_module = 0;  // more
  };
  void note_line(StackId stack, std::uint32_t event);
  [[nodiscard]] Repetitions of_calls() const;
  [[nodiscard]] Repetitions of_lines(const Store& store, RunKind run, std::uint32_t events,
                                     std::uint32_t fewest) const;

  std::vector<CodeKind> kinds_;
  std::unique_ptr<CallTracker> tracker_;
  std::size_t stacks_ = 0;                // that they know
  std::map<std::uint32_t, Calls> calls_;  // by site
  std::vector<Line> lines_;               // by stack
  std::optional<std::uint32_t> youngest_freed_;
  bool has_modules_ = false;
  bool has_forward_ = false;
};

// Finds where the repetitions of calls and lines begin, event by event.
class BeginFinder {
 public:
  BeginFinder(const Store& store, const Repetitions& repetitions);
  [[nodiscard]] bool begins(const EventColumns& events, std::size_t place);

 private:
  const Repetitions& repetitions_;
  std::vector<CodeKind> kinds_;
  CallTracker tracker_;
};

// Adds the repetition that begins at this event.
void add_repetition(std::vector<PhaseSpan>& spans, std::uint32_t event);

// Of a whole recording.
Repetitions find_repetitions(const Store& store, const DeviceRecord& record,
                             const std::vector<PhaseSpan>& spans, std::uint32_t fewest);

}  // namespace gpumemprof
