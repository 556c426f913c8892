// `gpumemprof table`: allocations, or the lines that made them, sorted and searched.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>

#include "analysis/overview/overview.h"
#include "analysis/table/row_table.h"
#include "cli/flags/device_flag.h"
#include "cli/flags/moment_flag.h"
#include "cli/flags/number_flag.h"
#include "cli/flags/size_flag.h"
#include "cli/verb.h"
#include "cli/verbs/terminal/opened_run.h"
#include "report/terminal/table_text.h"

namespace gpumemprof::cli {
namespace {

struct TableFlags {
  std::string file;
  std::string by = "line";
  std::string sort;
  bool is_reversed = false;
  std::string filter;
  std::string min_size;
  std::string at;
  std::string device;
  std::optional<std::string> top;
  bool is_json = false;
};

enum class LineOrder : std::uint8_t { live, bytes, count, largest, lifetime };

struct RowKey {
  std::string_view name;
  AllocationOrder order;
};
constexpr std::array kRowKeys = {
    RowKey{"size", AllocationOrder::size}, RowKey{"lifetime", AllocationOrder::lifetime},
    RowKey{"event", AllocationOrder::birth}, RowKey{"rounding", AllocationOrder::rounding}};
struct LineKey {
  std::string_view name;
  LineOrder order;
};
constexpr std::array kLineKeys = {
    LineKey{"live", LineOrder::live}, LineKey{"bytes", LineOrder::bytes},
    LineKey{"count", LineOrder::count}, LineKey{"largest", LineOrder::largest},
    LineKey{"lifetime", LineOrder::lifetime}};

template <typename Keys>
Result<typename Keys::value_type> find_key(const Keys& keys, const std::string& name,
                                           const std::string& by) {
  if (name.empty()) return keys.front();
  const auto found = std::ranges::find_if(keys, [&](const auto& key) { return key.name == name; });
  if (found != keys.end()) return *found;
  std::string known;
  for (const auto& key : keys) known += (known.empty() ? "" : ", ") + std::string(key.name);
  return Error{ErrorCode::usage, "a table by " + by + " cannot be sorted by '" + name + "'", "",
               "--sort takes one of " + known};
}

// What is unknown is below everything else.
double key_of(const LineStats& line, LineOrder order) {
  switch (order) {
    case LineOrder::live:
      return static_cast<double>(line.at_moment.bytes);
    case LineOrder::count:
      return static_cast<double>(line.made.count);
    case LineOrder::largest:
      return static_cast<double>(line.largest_bytes);
    case LineOrder::lifetime:
      return static_cast<double>(line.mean_lifetime_ns());
    case LineOrder::bytes:
      break;
  }
  return static_cast<double>(line.made.bytes);
}

class TableRun {
 public:
  TableRun(const TableFlags& flags, OpenedRun& run, RowFilter filter, std::size_t most)
      : flags_(flags), run_(run), search_(std::move(filter)), most_(most) {}

  Result<ShownTable> by_line() {
    const Result<LineKey> key = find_key(kLineKeys, flags_.sort, "line");
    if (!key) return key.error();
    RunStats stats(run_.moments());
    CountedBytes matching;
    const Status taken = run_.take_rows([&](const Store& store, const AllocationRow& row) {
      if (!search_.matches(store, row)) return;
      stats.add(store, row);
      matching.add(row.size_bytes);
    });
    if (!taken) return taken.error();
    ShownTable table = begin(key.value().name);
    table.matching = matching;
    for (const DeviceStats& device : stats.take()) {
      for (const LineStats& line : device.lines) table.lines.push_back({device.device, line});
    }
    table.matches = table.lines.size();
    std::ranges::stable_sort(table.lines, [&](const ShownLine& a, const ShownLine& b) {
      const double one = key_of(a.stats, key.value().order);
      const double other = key_of(b.stats, key.value().order);
      if (one == other) return a.stats.made.bytes > b.stats.made.bytes;
      return flags_.is_reversed ? one < other : one > other;
    });
    if (table.lines.size() > most_) table.lines.resize(most_);
    return table;
  }

  Result<ShownTable> by_allocation() {
    const Result<RowKey> key = find_key(kRowKeys, flags_.sort, "allocation");
    if (!key) return key.error();
    const bool is_up = (key.value().order == AllocationOrder::birth) != flags_.is_reversed;
    RowTable rows(key.value().order, is_up ? SortDirection::up : SortDirection::down, most_);
    const Status taken = run_.take_rows([&](const Store& store, const AllocationRow& row) {
      if (search_.matches(store, row)) rows.add(row);
    });
    if (!taken) return taken.error();
    ShownTable table = begin(key.value().name);
    table.is_by_line = false;
    table.matches = rows.matches();
    table.matching = {rows.matches(), rows.matching_bytes()};
    table.rows = rows.take();
    return table;
  }

 private:
  [[nodiscard]] ShownTable begin(std::string_view order) const {
    ShownTable table{run_.overview(), run_.row_store(), true, {}, {}, 0, {}, "", "", false, false};
    table.order = order;
    table.filter = flags_.filter;
    table.is_at_moment = !flags_.at.empty();
    table.is_in_windows = run_.is_in_windows();
    return table;
  }

  const TableFlags& flags_;
  OpenedRun& run_;
  RowSearch search_;
  std::size_t most_;
};

struct TableOptions {
  OverviewOptions overview;
  RowFilter filter;
  std::size_t most = 0;
};

// The first "nothing:" of words such as "-nothing:x"; file:line and std::sort have no field.
std::string unknown_field(const std::string& filter) {
  constexpr std::array<std::string_view, 5> kKnown = {"file", "function", "source", "name", "tag"};
  std::istringstream words(filter);
  for (std::string word; words >> word;) {
    if (word.size() > 1 && word.front() == '-') word.erase(0, 1);
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos || colon + 1 == word.size()) continue;
    const std::string field = word.substr(0, colon);
    const char next = word[colon + 1];
    const bool is_word =
        field.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    if (!is_word || next == ':' || (next >= '0' && next <= '9')) continue;
    if (std::ranges::find(kKnown, field) == kKnown.end()) return field;
  }
  return {};
}

Result<TableOptions> table_options(const TableFlags& flags) {
  constexpr std::size_t kShown = 20;
  constexpr std::size_t kListed = 1000;
  TableOptions options;
  if (flags.by != "line" && flags.by != "allocation")
    return Error{ErrorCode::usage, "--by takes line or allocation, not '" + flags.by + "'", "",
                 "try --by allocation"};
  const Result<AskedMoment> at = parse_moment(flags.at.empty() ? "peak" : flags.at);
  if (!at) return at.error();
  options.overview.at = at.value();
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return device.error();
  options.overview.device = options.filter.device = device.value();
  const Result<std::optional<std::uint64_t>> top =
      parse_number(flags.top, {.name = "--top", .least = 1, .hint = "try --top 20"});
  if (!top) return top.error();
  options.most = top.value().value_or(flags.is_json ? kListed : kShown);
  if (const std::string field = unknown_field(flags.filter); !field.empty())
    return Error{ErrorCode::usage, "--filter knows no '" + field + ":'", "",
                 "it knows file:, function:, source:, name: and tag:"};
  options.filter.words = flags.filter;
  if (!flags.min_size.empty()) {
    const Result<std::uint64_t> size = parse_size(flags.min_size, "--min-size");
    if (!size) return size.error();
    options.filter.min_size_bytes = size.value();
  }
  return options;
}

int run_table(const TableFlags& flags) {
  Result<TableOptions> options = table_options(flags);
  if (!options) return fail(options.error());
  const Terminal terminal = look_at_terminal();
  Result<OpenedRun> run = OpenedRun::open(flags.file, options.value().overview, terminal);
  if (!run) return fail(run.error());
  const Status kind = check_device_kind(flags.device, run.value().store(), flags.file);
  if (!kind) return fail(kind.error());
  if (!flags.at.empty()) options.value().filter.live_at = run.value().moments();
  TableRun asked(flags, run.value(), options.value().filter, options.value().most);
  const Result<ShownTable> table = flags.by == "line" ? asked.by_line() : asked.by_allocation();
  if (!table) return fail(table.error());
  if (flags.is_json) {
    print_json(table_json(table.value()));
  } else {
    print_out(table_text(table.value(), text_style(terminal)));
  }
  const std::optional<Error> cut = run.value().cut();
  return cut ? fail(*cut) : 0;
}

}  // namespace

VerbAction prepare_table(CLI::App& verb) {
  const auto flags = std::make_shared<TableFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_option("--by", flags->by, "A row for each line of code (default), or each allocation")
      ->type_name("line|allocation");
  verb.add_option("--sort", flags->sort,
                  "live, bytes, count, largest or lifetime; of allocations size, lifetime, event "
                  "or rounding (default: the first)")
      ->type_name("KEY");
  verb.add_flag("--reverse", flags->is_reversed, "The smallest first");
  verb.add_option("--filter", flags->filter,
                  "Only what matches all words: file, file:line, function, source, name, tag; "
                  "-word excludes")
      ->type_name("WORDS");
  verb.add_option("--min-size", flags->min_size, "Only blocks of this size or more")
      ->type_name("SIZE");
  verb.add_option("--at", flags->at, "Only what is live at this moment")
      ->type_name("EVENT|step:N|peak|end");
  verb.add_option("--top", flags->top, "The N first rows (default: 20; with --json, 1000)")
      ->type_name("N");
  verb.add_option("--device", flags->device, "Only this device, for example 0 or cuda:0")
      ->type_name("DEVICE");
  verb.add_flag("--json", flags->is_json, "Print the rows as JSON");
  return [flags](const Environment&) { return run_table(*flags); };
}

}  // namespace gpumemprof::cli
