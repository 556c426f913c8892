#include "long/summary_mutation.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "session/ranks/summary_file.h"
#include "verbs/promises.h"
#include "verbs/text_mutation.h"

namespace gpumemprof::fuzz {
namespace {

using nlohmann::json;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

json odd_value(Choices& choices) {
  std::string words;
  switch (choices.below(7)) {
    case 0:
      return nullptr;
    case 1:
      return choices.one_in(2);
    case 2:
      return 1e300;
    case 3:
      return json::array({1, -1});
    case 4:
      // Replaced where it is not UTF-8: JSON has no other text.
      change_text(words, choices);
      return words;
    default:
      return static_cast<std::int64_t>(odd_number(choices, 1));
  }
}

void change_json(json& value, Choices& choices) {
  if (value.is_structured() && !value.empty() && !choices.one_in(6)) {
    const auto at =
        std::next(value.begin(), static_cast<std::ptrdiff_t>(choices.below(value.size())));
    if (choices.one_in(10)) {
      value.erase(at);
    } else {
      change_json(*at, choices);
    }
    return;
  }
  value = odd_value(choices);
}

void change_line(std::string& line, Choices& choices) {
  if (choices.one_in(2)) {
    json value = json::parse(line, nullptr, false);
    if (value.is_discarded()) return;
    for (std::size_t changes = 1 + choices.below(3); changes > 0; --changes)
      change_json(value, choices);
    line = value.dump(choices.one_in(8) ? 1 : -1, ' ', false, json::error_handler_t::replace);
    return;
  }
  if (line.empty()) return;
  const std::size_t at = choices.below(line.size());
  switch (choices.below(6)) {
    case 0:
      line[at] = static_cast<char>(choices.below(256));
      break;
    case 1:
      line.erase(at, 1 + choices.below(8));
      break;
    case 2:
      line.insert(at, line.substr(choices.below(line.size()), 1 + choices.below(60)));
      break;
    case 3:
      line.resize(at);
      break;
    case 4:
      line.insert(at, std::to_string(static_cast<std::int64_t>(odd_number(choices, 1))));
      break;
    default:
      line.insert(at, std::string(choices.below(200'000), choices.one_in(2) ? ' ' : '1'));
  }
}

void change_lines(std::vector<std::string>& lines, Choices& choices) {
  if (lines.empty()) return;
  std::string& line = lines[choices.below(lines.size())];
  switch (choices.below(8)) {
    case 0:
      std::swap(line, lines[choices.below(lines.size())]);
      break;
    case 1:
      lines.push_back(std::string(line));
      break;
    case 2:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(choices.below(lines.size())));
      break;
    default:
      change_line(line, choices);
  }
}

bool is_same(const std::optional<SummaryFile>& one, const std::optional<SummaryFile>& other) {
  if (!one || !other) return one.has_value() == other.has_value();
  const auto is_same_device = [](const SummaryOfDevice& a, const SummaryOfDevice& b) {
    return a.held == b.held && a.steps == b.steps && a.peaks == b.peaks;
  };
  return one->head == other->head &&
         std::ranges::equal(one->devices, other->devices, is_same_device);
}

}  // namespace

void try_changed_summary(std::string summary, const std::string& path, Choices& choices) {
  std::vector<std::string> lines = lines_of(summary);
  for (std::size_t changes = choices.below(5); changes > 0; --changes) change_lines(lines, choices);
  summary.clear();
  const bool is_joined = choices.one_in(16);
  for (const std::string& line : lines) summary += line + (is_joined ? "" : "\n");
  if (choices.one_in(8)) summary.resize(choices.below(summary.size() + 1));
  std::ofstream(path, std::ios::binary | std::ios::trunc) << summary;
  const std::optional<SummaryFile> read = read_summary_file(path);
  promise(is_same(read, parse_summary(summary)), "a summary is read the same from a file");
  if (!read) return;
  promise(!read->devices.empty(), "a summary that is read has a device");
  for (const SummaryOfDevice& device : read->devices)
    promise(device.steps.size() == device.peaks.size(), "each step has a peak");
}

}  // namespace gpumemprof::fuzz
