#include "verbs/every_verb.h"

#include <memory>

#include "report/arrow/table.h"
#include "report/json/advice_json.h"
#include "report/json/info_json.h"
#include "report/json/overview_json.h"
#include "report/json/whatif_json.h"
#include "report/text/advice/advice_text.h"
#include "report/text/info_text.h"
#include "report/text/overview/overview_text.h"
#include "report/text/whatif_text.h"
#include "session/formats.h"
#include "session/view.h"
#include "verbs/promises.h"
#include "verbs/questions.h"

namespace gpumemprof::fuzz {
namespace {

using Opened = std::shared_ptr<const Recording>;

class Verbs {
 public:
  Verbs(const Recording& recording, Opened owner, std::string folder, Choices& choices)
      : recording_(recording),
        owner_(std::move(owner)),
        folder_(std::move(folder)),
        choices_(choices) {}

  void run() {
    report();
    tables();
    // Running everything would take too long for every small change.
    switch (choices_.below(4)) {
      case 0:
        ask_everything(View({owner_}), choices_);
        break;
      case 1:
        simulate();
        break;
      case 2:
        advise();
        break;
      default:
        convert_to_all();
    }
  }

 private:
  std::size_t device_count() const { return recording_.store().devices().size(); }
  std::optional<DeviceIndex> some_device() {
    return gpumemprof::fuzz::some_device(device_count(), choices_);
  }

  void report() {
    const Result<Overview> overview = recording_.overview(some_overview(device_count(), choices_));
    if (!overview) return promise_sentence(overview.error());
    show_overview(overview.value(), recording_.store(), choices_);
    (void)recording_.cut();
    const RecordingInfo info =
        find_info(recording_.store(), {recording_.path(), std::nullopt, std::nullopt});
    show_info(info);
  }

  void tables() {
    using arrow::TableKind;
    const std::shared_ptr<const Store> store(owner_, &recording_.store());
    for (const TableKind kind : {TableKind::events, TableKind::allocations, TableKind::segments,
                                 TableKind::stacks, TableKind::frames}) {
      const arrow::StoreTable table(store, kind);
      (void)table.rows();
      read_stream(table);
    }
  }

  WhatIfOptions what_if() {
    constexpr const char* kConfs[] = {"",
                                      "expandable_segments:True",
                                      "max_split_size_mb:64",
                                      "garbage_collection_threshold:0.6",
                                      "roundup_power2_divisions:4",
                                      "no_such_setting:1"};
    WhatIfOptions options;
    options.device = some_device();
    options.alloc_confs.emplace_back(kConfs[choices_.below(std::size(kConfs))]);
    options.finds_min_memory = choices_.one_in(2);
    if (choices_.one_in(3)) options.memory_limits.push_back(odd_number(choices_, 1 << 26));
    if (choices_.one_in(4)) options.recorded_limit_bytes = odd_number(choices_, 1 << 26);
    options.searches = choices_.one_in(6);
    return options;
  }

  void simulate() {
    const WhatIfOptions options = what_if();
    const Result<WhatIf> whatif = recording_.whatif(options);
    if (whatif) {
      promise_json(whatif_json(whatif.value()));
      promise(!whatif_text(whatif.value(), {}).empty(), "a simulation says something");
    } else {
      promise_sentence(whatif.error());
    }
    const std::string path = folder_ + "/simulated.gmp";
    const Status written = recording_.write_simulated(options, path, true);
    if (!written) return promise_sentence(written.error());
    promise(Recording::open(path).ok(), "what was simulated can be opened");
  }

  void advise() {
    AdviceOptions options;
    options.device = some_device();
    if (!choices_.one_in(3)) options.fit_bytes = odd_number(choices_, 1 << 24);
    if (choices_.one_in(2)) options.batch = odd_number(choices_, 32);
    if (choices_.one_in(3)) options.sequence = odd_number(choices_, 128);
    const Result<Advice> advice =
        recording_.advise(options, choices_.one_in(4) ? &recording_ : nullptr);
    if (!advice) return promise_sentence(advice.error());
    promise_json(advice_json(advice.value(), recording_.store()));
    promise(!advice_text(advice.value(), recording_.store(), {}).empty(), "advice says something");
  }

  void convert_to_all() {
    for (const Format& format : formats()) {
      const std::string path = folder_ + "/converted." + std::string(format.name);
      if (format.write == nullptr) continue;
      const Status written = format.write(recording_, path, FileSink::Existing::replace);
      if (!written) {
        promise_sentence(written.error());
        continue;
      }
      if (format.open == nullptr) continue;
      const Result<Opened> again = Recording::open(path);
      promise(again.ok(), "what was converted can be opened");
      promise(again.value()->overview().ok(), "what was converted can be reported");
    }
  }

  const Recording& recording_;
  Opened owner_;
  std::string folder_;
  Choices& choices_;
};

}  // namespace

std::optional<DeviceIndex> some_device(std::size_t devices, Choices& choices) {
  if (!choices.one_in(6)) return std::nullopt;
  return static_cast<DeviceIndex>(choices.below(devices + 2));
}

OverviewOptions some_overview(std::size_t devices, Choices& choices) {
  OverviewOptions options;
  options.device = some_device(devices, choices);
  if (choices.one_in(3)) options.at.kind = AskedMoment::Kind::end;
  if (choices.one_in(3)) {
    options.at = {
        AskedMoment::Kind::event,
        static_cast<std::uint32_t>(choices.one_in(4) ? choices.number() : choices.below(3000))};
  }
  if (choices.one_in(6)) {
    options.at.kind = AskedMoment::Kind::step;
    options.at.step = static_cast<std::uint32_t>(choices.below(12));
  }
  return options;
}

void show_overview(const Overview& overview, const Store& store, Choices& choices) {
  TextStyle style;
  style.shows_modules = true;
  style.shows_steps = true;
  style.has_color = choices.one_in(2);
  style.width = 60 + choices.below(61);
  style.top = choices.one_in(8) ? choices.number() : choices.below(20);
  promise(!overview_text(overview, store, style).empty(), "a report says something");
  promise_json(overview_json(overview, store, choices.one_in(2) ? kAllGroups : choices.below(5)));
}

void read_stream(const arrow::Table& table) {
  (void)table.column_names();
  ArrowSchema schema{};
  table.export_schema(&schema);
  if (schema.release != nullptr) schema.release(&schema);
  ArrowArrayStream stream{};
  table.export_stream(&stream);
  for (;;) {
    ArrowArray batch{};
    if (stream.get_next(&stream, &batch) != 0 || batch.release == nullptr) break;
    batch.release(&batch);
  }
  stream.release(&stream);
}

void show_info(const RecordingInfo& info) {
  promise(!info_text(info, {}).empty(), "a description says something");
  promise_json(info_json(info));
}

void try_verbs_on(const Opened& recording, const std::string& folder, Choices& choices) {
  Verbs(*recording, recording, folder, choices).run();
}

void try_every_verb(const std::string& path, const std::string& folder, Choices& choices) {
  const Result<Opened> opened = Recording::open(path);
  if (!opened) {
    promise_sentence(opened.error());
    promise(opened.error().code == ErrorCode::bad_input, "a bad file is bad input");
    return;
  }
  try_verbs_on(opened.value(), folder, choices);
}

}  // namespace gpumemprof::fuzz
