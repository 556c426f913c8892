#include "verbs/every_verb.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
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
#include "session/html/view_html.h"
#include "session/view.h"

namespace gpumemprof::fuzz {
namespace {

using Opened = std::shared_ptr<const Recording>;

// Not assert(): checked in every build.
void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

void promise_sentence(const Error& error) {
  promise(!error.message.empty(), "an error has a message");
  promise(error.code != ErrorCode::bug, "no file causes an internal error");
}

void promise_json(const std::string& text) {
  promise(nlohmann::json::accept(text), "JSON is JSON");
  promise(is_valid_utf8(text), "JSON is UTF-8");
}

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
        view();
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
    if (!choices_.one_in(6)) return std::nullopt;
    return static_cast<DeviceIndex>(choices_.below(device_count() + 2));
  }

  void report() {
    OverviewOptions options;
    options.device = some_device();
    if (choices_.one_in(3)) options.at.kind = AskedMoment::Kind::end;
    if (choices_.one_in(3)) {
      options.at = {AskedMoment::Kind::event,
                    static_cast<std::uint32_t>(choices_.one_in(4) ? choices_.number()
                                                                  : choices_.below(3000))};
    }
    const Result<Overview> overview = recording_.overview(options);
    if (!overview) return promise_sentence(overview.error());
    TextStyle style;
    style.shows_modules = true;
    style.shows_steps = true;
    style.has_color = choices_.one_in(2);
    style.width = 60 + choices_.below(61);
    style.top = choices_.one_in(8) ? choices_.number() : choices_.below(20);
    promise(!overview_text(overview.value(), recording_.store(), style).empty(),
            "a report says something");
    promise_json(overview_json(overview.value(), recording_.store(),
                               choices_.one_in(2) ? kAllGroups : choices_.below(5)));
    (void)recording_.cut();
    const RecordingInfo info =
        find_info(recording_.store(), {recording_.path(), std::nullopt, std::nullopt});
    promise(!info_text(info, style).empty(), "a description says something");
    promise_json(info_json(info));
  }

  void tables() {
    using arrow::TableKind;
    const std::shared_ptr<const Store> store(owner_, &recording_.store());
    for (const TableKind kind : {TableKind::events, TableKind::allocations, TableKind::segments,
                                 TableKind::stacks, TableKind::frames}) {
      const arrow::StoreTable table(store, kind);
      (void)table.rows();
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
  }

  static void answered(const Result<std::string>& answer) {
    if (!answer) return promise_sentence(answer.error());
    promise_json(answer.value());
  }

  Position some_position(const DeviceView& view) {
    const Position last = view.timeline().last_position();
    if (choices_.one_in(8)) return static_cast<Position>(odd_number(choices_, last));
    return static_cast<Position>(choices_.below(std::size_t{last} + 2));
  }

  void ask_device(const View& view, DeviceName name) {
    const DeviceView& device = *view.whole(name);
    answered(view.answer(view::OverlaysQuestion{name}));
    answered(view.answer(view::StepsQuestion{name}));
    answered(view.answer(view::AdviceQuestion{name, std::nullopt}));
    answered(view.answer(view::TogetherQuestion{name, "checkpointing+autocast_bf16"}));
    for (const GroupBy by : kGroupBys) {
      answered(view.answer(view::GroupsQuestion{name, by}));
      for (const Axis axis : {Axis::event, Axis::time}) {
        const auto level = static_cast<std::uint32_t>(choices_.below(5));
        const auto index = static_cast<std::uint32_t>(choices_.below(std::size_t{1} << level));
        answered(view.answer(view::TileQuestion{name, by, {axis, level, index}}));
        answered(view.answer(view::SpansQuestion{name, {axis, level, index}}));
      }
      answered(view.answer(view::SegmentsQuestion{name, some_position(device), by}));
      answered(view.answer(view::GroupBytesQuestion{name, some_position(device), by}));
      answered(view.answer(view::CompareQuestion{
          name, some_position(device), {0, choices_.below(3)}, some_position(device), by}));
    }
    answered(view.answer(
        view::TileQuestion{name,
                           GroupBy::line,
                           {Axis::time, static_cast<std::uint32_t>(odd_number(choices_, 21)),
                            static_cast<std::uint32_t>(odd_number(choices_, 1))}}));
    answered(view.answer(view::MomentQuestion{name, some_position(device)}));
    for (const FlameBy by : kFlameBys)
      answered(view.answer(view::FlameQuestion{name, some_position(device), by}));
    ask_allocations(view, name, device);
  }

  void ask_allocations(const View& view, DeviceName name, const DeviceView& device) {
    view::AllocationsQuestion question;
    question.device = name;
    question.query.order = static_cast<AllocationOrder>(choices_.below(4));
    question.query.direction = choices_.one_in(2) ? SortDirection::down : SortDirection::up;
    question.query.offset = choices_.one_in(4) ? choices_.number() : choices_.below(50);
    question.query.limit = choices_.below(300);
    if (choices_.one_in(3)) question.query.filter.words = "linear train.py size>=1MiB \"";
    if (choices_.one_in(3)) question.query.filter.live_at = some_position(device);
    if (choices_.one_in(3)) question.query.filter.from = some_position(device);
    if (choices_.one_in(3)) question.query.filter.to = some_position(device);
    if (choices_.one_in(3)) {
      question.by = kGroupBys[choices_.below(std::size(kGroupBys))];
      question.group = static_cast<std::uint8_t>(choices_.below(256));
    }
    if (choices_.one_in(3)) {
      question.query.filter.min_lifetime = static_cast<std::int64_t>(odd_number(choices_, 9));
      question.query.filter.max_lifetime = static_cast<std::int64_t>(odd_number(choices_, 999));
    }
    answered(view.answer(question));
    answered(view.answer(
        view::AllocationQuestion{name, choices_.below(device.record().allocations.size() + 2)}));
    answered(view.answer(view::SinglesQuestion{
        name, some_position(device), some_position(device),
        kGroupBys[choices_.below(std::size(kGroupBys))],
        choices_.one_in(2) ? Axis::time : Axis::event, odd_number(choices_, 4096),
        static_cast<std::int64_t>(odd_number(choices_, 99)), choices_.below(400)}));
    if (choices_.one_in(8)) answered(view.answer(view::SettingsQuestion{name}));
    answered(view.answer(view::RangeQuestion{name, some_position(device), some_position(device)}));
    answered(
        view.answer(view::RangeFlameQuestion{name, some_position(device), some_position(device),
                                             kRangeParts[choices_.below(std::size(kRangeParts))],
                                             kFlameBys[choices_.below(std::size(kFlameBys))]}));
  }

  void view() {
    const View view({owner_});
    answered(view.answer(view::MetaQuestion{}));
    answered(view.answer(view::ReportQuestion{0}));
    for (std::size_t device = 0; device < std::min<std::size_t>(device_count(), 3); ++device)
      ask_device(view, {0, device});
    if (!choices_.one_in(4)) return;
    ViewHtmlOptions options;
    options.most_bytes = 400'000 + choices_.below(500'000);
    const Result<ViewHtml> made =
        write_view_html(view, "<!doctype html><title>x</title><!--data-->", options);
    promise(made.ok(), "a page can be written");
    promise(made.value().html.size() <= options.most_bytes + 2'000'000, "a page keeps to its size");
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

void try_every_verb(const std::string& path, const std::string& folder, Choices& choices) {
  const Result<Opened> opened = Recording::open(path);
  if (!opened) {
    promise_sentence(opened.error());
    promise(opened.error().code == ErrorCode::bad_input, "a bad file is bad input");
    return;
  }
  Verbs(*opened.value(), opened.value(), folder, choices).run();
}

}  // namespace gpumemprof::fuzz
