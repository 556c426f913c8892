#include "long/long_verbs.h"

#include <exception>

#include "follow/followed_run.h"
#include "report/json/overview_json.h"
#include "report/leaks/leaks_json.h"
#include "report/leaks/leaks_text.h"
#include "report/live/live_json.h"
#include "session/excerpt/excerpt.h"
#include "session/excerpt/scanned_run.h"
#include "session/exports/exports.h"
#include "session/file_info.h"
#include "session/html/view_html.h"
#include "session/long_recording.h"
#include "session/ranks/rank_summary.h"
#include "session/ranks/summary_file.h"
#include "session/reported_run.h"
#include "session/tables/long_table.h"
#include "session/tables/run_tables.h"
#include "session/view.h"
#include "verbs/every_verb.h"
#include "verbs/promises.h"
#include "verbs/questions.h"

namespace gpumemprof::fuzz {
namespace {

class LongVerbs {
 public:
  LongVerbs(const std::string& path, const std::string& folder, Choices& choices)
      : path_(path), folder_(folder), choices_(choices) {}

  void run() {
    follow();
    report();
    // Running everything would take too long for every small change.
    switch (choices_.below(7)) {
      case 0:
      case 1:
        return view();
      case 2:
        return open_part();
      case 3:
        return tables();
      case 4:
        return convert();
      case 5:
        return describe();
      default:
        return load();
    }
  }

 private:
  // What `live` does, with looks that end anywhere.
  void follow() {
    const auto run = FollowedRun::open(path_);
    if (!run) return promise_sentence(run.error());
    const std::uint64_t most_bytes = std::uint64_t{1} << (8 + choices_.below(20));
    constexpr int kMostLooks = 40;
    for (int look = 0; look < kMostLooks; ++look) {
      const Result<LiveReport> report = run.value()->read(most_bytes, 5, 5);
      if (!report) {
        promise_sentence(report.error());
        break;
      }
      promise_json(live_json(report.value()));
      if (!report.value().is_behind) break;
    }
    promise_json(live_json(run.value()->report(50, 50)));
    (void)run.value()->kept_sites({5, 5, choices_.one_in(2)});
  }

  void report() {
    const Result<std::unique_ptr<ReportedRun>> opened =
        ReportedRun::open(path_, {}, choices_.one_in(6), !choices_.one_in(6));
    if (!opened) return promise_sentence(opened.error());
    ReportedRun& run = *opened.value();
    for (std::size_t count = 1 + choices_.below(2); count > 0; --count) {
      const Result<Overview> overview = run.overview(some_overview(2, choices_));
      if (overview) {
        show_overview(overview.value(), run.store(), choices_);
      } else {
        promise_sentence(overview.error());
      }
    }
    if (choices_.one_in(2)) show_leaks(run);
    (void)run.cut();
  }

  template <typename Run>
  void show_leaks(Run& run) {
    LeaksOptions options;
    options.device = some_device(2, choices_);
    if (choices_.one_in(4)) options.suppressions = {"train.py"};
    if (choices_.one_in(4)) options.memory_limit_bytes = odd_number(choices_, 1 << 26);
    const Result<LeaksReport> leaks = run.leaks(options);
    if (!leaks) return promise_sentence(leaks.error());
    promise_json(leaks_json(leaks.value(), run.store()));
    promise(!leaks_text(leaks.value(), run.store(), {}).empty(), "a verdict says something");
  }

  void view() {
    ViewedRunOptions options;
    if (choices_.one_in(4)) options.most_devices = kMostHtmlDevices;
    const Result<ViewedRun> run = open_viewed_run(path_, options);
    if (!run) return promise_sentence(run.error());
    (void)run.value().cut();
    ask_everything(View({run.value()}), choices_);
  }

  AskedPart some_part() {
    AskedPart part;
    part.kind = static_cast<AskedPart::Kind>(choices_.below(3));
    const auto edge = [&] {
      return static_cast<std::uint32_t>(choices_.one_in(5) ? odd_number(choices_, 1)
                                                           : choices_.below(400));
    };
    part.first = edge();
    part.last = edge();
    if (part.last < part.first && !choices_.one_in(8)) std::swap(part.first, part.last);
    if (choices_.one_in(2)) part.device = static_cast<DeviceIndex>(choices_.below(4));
    return part;
  }

  void open_part() {
    const Result<std::shared_ptr<const Recording>> part = open_excerpt(path_, some_part());
    if (!part) return promise_sentence(part.error());
    if (part.value() != nullptr) try_verbs_on(part.value(), folder_, choices_);
  }

  void tables() {
    using arrow::TableKind;
    for (const TableKind kind : {TableKind::events, TableKind::allocations, TableKind::segments}) {
      const LongTable table(path_, kind, std::nullopt);
      read_stream(table);
      try {
        (void)table.rows();
      } catch (const std::exception& error) {
        promise(error.what()[0] != '\0', "an error has a message");
      }
    }
    const Result<std::unique_ptr<TabledRun>> run = TabledRun::open(path_);
    if (!run) return promise_sentence(run.error());
    const Status shown = show_tables(
        *run.value(), some_device(2, choices_),
        {[](std::string_view) { return true; },
         [](TablePart& part) {
           ArrowArray batch{};
           const std::shared_ptr<const Store> store(std::shared_ptr<const Store>(), &part.store);
           arrow::export_batch(store, part.kind, part.device, &batch, std::move(part.other));
           batch.release(&batch);
         },
         [](const SmallTable& table) { promise(!table.columns.empty(), "a table has columns"); }});
    if (!shown) promise_sentence(shown.error());
    (void)run.value()->completeness();
    (void)run.value()->cut();
  }

  ExportOptions export_options() {
    ExportOptions options;
    const OverviewOptions moment = some_overview(2, choices_);
    if (choices_.one_in(2)) options.at = moment.at;
    options.device = moment.device;
    if (choices_.one_in(2)) options.table = kTableNames[choices_.below(kTableNames.size())];
    return options;
  }

  Status write(const Format& format, const std::string& path) {
    constexpr FileSink::Existing kReplace = FileSink::Existing::replace;
    if (format.write_run != nullptr) {
      const Result<std::unique_ptr<TabledRun>> run = TabledRun::open(path_);
      if (!run) return run.error();
      ExportOptions options = export_options();
      if (!format.has_tables) options.table.clear();
      return format.write_run(*run.value(), options, path, kReplace);
    }
    if (format.is_streamed) {
      const Result<FileInfo> file = look_at_file(path_);
      if (!file) return file.error();
      const Result<ScannedRun> copied = copy_run(file.value(), {}, path, kReplace);
      if (!copied) return copied.error();
      promise(Recording::open(path).ok(), "what was copied can be opened");
      return Done{};
    }
    const Result<std::unique_ptr<ReportedRun>> run = ReportedRun::open(path_, {}, false, false);
    if (!run) return run.error();
    const Result<Overview> overview = run.value()->overview();
    if (!overview) return overview.error();
    return format.write_overview(overview.value(), run.value()->store(), path, kReplace);
  }

  void convert() {
    for (const Format& format : formats()) {
      if (format.write_run == nullptr && !format.is_streamed && format.write_overview == nullptr)
        continue;
      // Tables are a folder, or a file if there is one.
      const std::string path =
          folder_ + "/long." + std::to_string(choices_.below(2)) + std::string(format.name);
      const Status written = write(format, path);
      if (!written) promise_sentence(written.error());
    }
  }

  void describe() {
    const Result<FileInfo> file = look_at_file(path_);
    if (!file) return promise_sentence(file.error());
    const Result<ScannedRun> run = scan_run(file.value(), {});
    if (run) {
      show_info(run.value().info);
    } else {
      promise_sentence(run.error());
    }
    const Result<std::string> summary = rank_summary(path_, choices_.one_in(2));
    if (!summary) return promise_sentence(summary.error());
    const std::string& text = summary.value();
    promise(is_valid_utf8(text), "a summary is UTF-8");
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      promise_json(text.substr(begin, end - begin));
      begin = end + 1;
    }
    if (text.find("\"devices\":[]") == std::string::npos)
      promise(parse_summary(text).has_value(), "a summary can be read");
  }

  // As the Python package loads it.
  void load() {
    const Result<std::shared_ptr<LongRecording>> opened = LongRecording::open(path_, {});
    if (!opened) return promise_sentence(opened.error());
    if (opened.value() == nullptr) return;
    LongRecording& recording = *opened.value();
    const Result<Overview> overview =
        recording.overview(some_overview(recording.device_names().size(), choices_));
    if (overview) {
      show_overview(overview.value(), recording.store(), choices_);
    } else {
      promise_sentence(overview.error());
    }
    show_leaks(recording);
    (void)recording.cut();
    const Result<std::shared_ptr<const Recording>> part = recording.around_peak();
    if (!part) return promise_sentence(part.error());
    try_verbs_on(part.value(), folder_, choices_);
  }

  const std::string& path_;
  const std::string& folder_;
  Choices& choices_;
};

}  // namespace

void try_every_verb_in_windows(const std::string& path, const std::string& folder,
                               Choices& choices) {
  LongVerbs(path, folder, choices).run();
}

}  // namespace gpumemprof::fuzz
