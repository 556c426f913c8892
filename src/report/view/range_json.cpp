#include <algorithm>
#include <map>

#include "report/view/labels.h"
#include "report/view/view_json.h"

namespace gpumemprof::view {
namespace {

constexpr std::size_t kMostRangeRows = 200;

std::string code_label(const Store& store, const AllocatingCode& code) {
  return (code.is_backward ? std::string(kInBackward) : "") + stack_label(store, code.stack);
}

Json range_group(const std::string& label, const RangeFigures& figures) {
  return {{"label", label},
          {"allocated_bytes", figures.allocated.bytes},
          {"allocated_blocks", figures.allocated.blocks},
          {"freed_bytes", figures.freed.bytes},
          {"freed_blocks", figures.freed.blocks},
          {"survived_bytes", figures.survived.bytes},
          {"survived_blocks", figures.survived.blocks}};
}

// Those that moved most first; of equals, by label.
Json lines_json(const std::map<std::string, RangeFigures>& lines) {
  std::vector<std::pair<std::string, RangeFigures>> order(lines.begin(), lines.end());
  std::ranges::stable_sort(order, std::greater(), [](const auto& line) {
    return line.second.allocated.bytes + line.second.freed.bytes;
  });
  Json json = Json::array();
  for (const auto& [label, figures] : order) {
    if (json.size() == kMostRangeRows) break;
    json.push_back(range_group(label, figures));
  }
  return json;
}

using Moves = std::map<std::pair<std::string, std::string>, RangeCount>;

Json moves_json(const Moves& moves) {
  std::vector<std::pair<std::pair<std::string, std::string>, RangeCount>> order(moves.begin(),
                                                                                moves.end());
  std::ranges::stable_sort(order, std::greater(),
                           [](const auto& move) { return move.second.bytes; });
  Json json = Json::array();
  for (const auto& [labels, count] : order) {
    if (json.size() == kMostRangeRows) break;
    json.push_back({{"allocated_at", labels.first},
                    {"freed_at", labels.second},
                    {"bytes", count.bytes},
                    {"blocks", count.blocks}});
  }
  return json;
}

std::string source_name(MemorySource source) {
  return std::string(
      std::ranges::find(kMemorySourceTable, source, &MemorySourceInfo::source)->name);
}

std::size_t left_out(std::size_t all) { return all - std::min(all, kMostRangeRows); }

}  // namespace

std::string range_json(const Store& store, const RangeFacts& facts, const RangeChanges& changes) {
  // Different stacks may lead to one line.
  std::map<std::string, RangeFigures> lines;
  for (const auto& [code, figures] : changes.by_code) lines[code_label(store, code)].add(figures);
  Moves moves;
  for (const auto& [ends, count] : changes.freed_at) {
    moves[{code_label(store, ends.first), stack_label(store, ends.second)}].add(count.bytes,
                                                                                count.blocks);
  }
  Json sources = Json::array();
  for (const auto& [source, figures] : changes.by_source)
    sources.push_back(range_group(source_name(source), figures));
  return dump({{"from", facts.from},
               {"to", facts.to},
               {"from_bytes", facts.from_bytes},
               {"to_bytes", facts.to_bytes},
               {"peak_position", facts.peak_position},
               {"peak_bytes", facts.peak_bytes},
               {"all", range_group("", changes.all)},
               {"lines", lines_json(lines)},
               {"lines_left_out", left_out(lines.size())},
               {"sources", std::move(sources)},
               {"moves", moves_json(moves)},
               {"moves_left_out", left_out(moves.size())}});
}

std::string range_so_far_json(const Store& store, const RangeFacts& facts,
                              const RangeChanges& survivors) {
  std::map<std::string, RangeCount> lines;
  for (const auto& [code, figures] : survivors.by_code)
    lines[code_label(store, code)].add(figures.survived.bytes, figures.survived.blocks);
  std::vector<std::pair<std::string, RangeCount>> order(lines.begin(), lines.end());
  std::ranges::stable_sort(order, std::greater(),
                           [](const auto& line) { return line.second.bytes; });
  const auto kept = [](const std::string& label, const RangeCount& count) -> Json {
    return {{"label", label}, {"bytes", count.bytes}, {"blocks", count.blocks}};
  };
  Json listed = Json::array();
  for (const auto& [label, count] : order) {
    if (listed.size() == kMostRangeRows) break;
    listed.push_back(kept(label, count));
  }
  Json sources = Json::array();
  for (const auto& [source, figures] : survivors.by_source)
    sources.push_back(kept(source_name(source), figures.survived));
  return dump({{"from", facts.from},
               {"to", facts.to},
               {"from_bytes", facts.from_bytes},
               {"to_bytes", facts.to_bytes},
               {"survived_bytes", survivors.all.survived.bytes},
               {"survived_blocks", survivors.all.survived.blocks},
               {"lines", std::move(listed)},
               {"lines_left_out", left_out(lines.size())},
               {"sources", std::move(sources)}});
}

std::string singles_json(const Singles& singles) {
  Json json = {{"matches", singles.matches ? Json(*singles.matches) : Json()},
               {"spacing", singles.spacing},
               {"row", Json::array()},
               {"size", Json::array()},
               {"requested", Json::array()},
               {"birth", Json::array()},
               {"death", Json::array()},
               {"group", Json::array()},
               {"stream", Json::array()},
               {"streams", Json::array()}};
  std::map<std::uint64_t, std::size_t> numbers;  // of streams, in order of first use
  for (const Singles::Row& row : singles.rows) {
    json["row"].push_back(row.row);
    json["size"].push_back(row.size_bytes);
    json["requested"].push_back(row.requested_bytes);
    json["birth"].push_back(row.birth);
    json["death"].push_back(row.death ? Json(*row.death) : Json());
    json["group"].push_back(row.group);
    const auto [stream, is_new] = numbers.try_emplace(row.stream_handle, numbers.size());
    if (is_new) json["streams"].push_back(address_text(row.stream_handle));
    json["stream"].push_back(stream->second);
  }
  return dump(json);
}

std::string settings_json(const SimulatedSettings& settings) {
  Json runs = Json::array();
  for (const SimulatedSettings::Run& run : settings.runs) {
    runs.push_back({{"alloc_conf", run.alloc_conf},
                    {"peak_reserved_bytes", run.peak_reserved_bytes},
                    {"ooms", run.ooms},
                    {"is_recorded", run.is_recorded}});
  }
  const auto step = [](std::uint32_t number) { return number == 0 ? Json() : Json(number); };
  Json part;
  if (settings.part) {
    part = {{"from_event", settings.part->from},
            {"to_event", settings.part->to},
            {"first_step", step(settings.part->first_step)},
            {"last_step", step(settings.part->last_step)}};
  }
  return dump({{"is_exact", settings.is_exact},
               {"why_not", settings.why_not.empty() ? Json() : Json(settings.why_not)},
               {"part", std::move(part)},
               {"runs", std::move(runs)}});
}

}  // namespace gpumemprof::view
