#include "report/text/modules_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

constexpr std::size_t kDeepestIndent = 12;

// What a column of the table holds: one source, or all that have no column.
struct SourceColumn {
  std::string_view heading;
  std::vector<MemorySource> sources;
  bool has_rounding = false;

  [[nodiscard]] std::uint64_t bytes(const ModuleNode& node) const {
    std::uint64_t sum = has_rounding ? node.by_source.rounding : 0;
    for (const MemorySource source : sources) sum += node.by_source[source];
    return sum;
  }
};

std::vector<SourceColumn> all_columns() {
  std::vector<SourceColumn> columns;
  SourceColumn other{"other", {}, true};
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    if (info.column.empty()) {
      other.sources.push_back(info.source);
    } else {
      columns.push_back({info.column, {info.source}});
    }
  }
  columns.push_back(std::move(other));
  return columns;
}

// The last part of a path, where it is a number; none: it is not part of a numbered sequence.
std::optional<std::uint64_t> number_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  if (last.empty() || last.size() > 9 || !std::all_of(last.begin(), last.end(), [](char digit) {
        return digit >= '0' && digit <= '9';
      }))
    return std::nullopt;
  std::uint64_t number = 0;
  for (const char digit : last) number = 10 * number + static_cast<std::uint64_t>(digit - '0');
  return number;
}

// Modules by instance: equal layers share one line, and the contents of one stand for all.
class InstanceTable {
 public:
  InstanceTable(const DeviceOverview& device, const TextStyle& style)
      : nodes_(device.sources.modules), peak_bytes_(device.sources.peak_bytes), style_(style) {
    children_.resize(nodes_.size() + 1);
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      const std::uint32_t parent = nodes_[node].parent;
      children_[parent == ModuleNode::kNoParent ? nodes_.size() : parent].push_back(node);
    }
    for (const SourceColumn& column : all_columns()) {
      if (std::any_of(nodes_.begin(), nodes_.end(),
                      [&](const ModuleNode& node) { return column.bytes(node) > 0; }))
        columns_.push_back(column);
    }
  }

  std::string run() {
    out_ = "  Live at the peak, by module\n  " + right("total", kWidth);
    for (const SourceColumn& column : columns_) out_ += right(column.heading, kWidth);
    out_ += "  module\n";
    print_siblings(children_.back(), "", 0);
    print_outside();
    if (left_out_ > 0)
      out_ +=
          fmt::format("  {} below {} % of the peak {} not listed.\n", counted(left_out_, "module"),
                      kLeastPercent, left_out_ == 1 ? "is" : "are");
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kWidth = 9;
  static constexpr const char* kLeastPercent = "0.5";
  static constexpr std::uint64_t kLeastShare = 200;
  static constexpr std::size_t kDeepest = 64;  // a forged file may nest arbitrarily deep

  // How many siblings from this one on are equal except for their consecutive numbers.
  [[nodiscard]] std::size_t equal_from(const std::vector<std::uint32_t>& siblings,
                                       std::size_t first) const {
    const auto number = number_of(nodes_[siblings[first]].name);
    std::size_t count = 1;
    while (number && first + count < siblings.size()) {
      const std::uint32_t next = siblings[first + count];
      if (number_of(nodes_[next].name) != *number + count || !are_equal(siblings[first], next))
        break;
      ++count;
    }
    return count;
  }

  [[nodiscard]] std::string_view last_part(std::uint32_t node) const {
    const std::string_view name = nodes_[node].name;
    const std::size_t dot = name.rfind('.');
    return dot == std::string_view::npos ? name : name.substr(dot + 1);
  }

  [[nodiscard]] bool are_equal(std::uint32_t a, std::uint32_t b) const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> open = {{a, b}};
    while (!open.empty()) {
      const auto [one, other] = open.back();
      open.pop_back();
      const bool has_same_name = one == a || last_part(one) == last_part(other);
      if (!has_same_name || nodes_[one].bytes != nodes_[other].bytes ||
          nodes_[one].by_source != nodes_[other].by_source ||
          children_[one].size() != children_[other].size())
        return false;
      for (std::size_t index = 0; index < children_[one].size(); ++index)
        open.emplace_back(children_[one][index], children_[other][index]);
    }
    return true;
  }

  [[nodiscard]] bool is_small(std::uint32_t node) const {
    return nodes_[node].bytes < peak_bytes_ / kLeastShare || nodes_[node].bytes == 0;
  }

  void print_siblings(const std::vector<std::uint32_t>& siblings, std::string_view around,
                      std::size_t depth) {
    for (std::size_t index = 0; index < siblings.size();) {
      const std::size_t count = equal_from(siblings, index);
      if (is_small(siblings[index])) {
        left_out_ += std::accumulate(
            siblings.begin() + static_cast<std::ptrdiff_t>(index),
            siblings.begin() + static_cast<std::ptrdiff_t>(index + count), std::size_t{0},
            [&](std::size_t sum, std::uint32_t node) { return sum + size_of(node); });
      } else {
        print_group(siblings[index], siblings[index + count - 1], count, around, depth);
      }
      index += count;
    }
  }

  [[nodiscard]] std::size_t size_of(std::uint32_t node) const {
    // Nodes follow their parents, so a subtree is contiguous.
    std::uint32_t end = node + 1;
    while (end < nodes_.size() && nodes_[end].parent != ModuleNode::kNoParent &&
           nodes_[end].parent >= node)
      ++end;
    return end - node;
  }

  void print_group(std::uint32_t first, std::uint32_t last, std::size_t count,
                   std::string_view around, std::size_t depth) {
    // A module that only contains another one needs no line of its own.
    while (count == 1 && nodes_[first].self_bytes == 0 && children_[first].size() == 1 && depth > 0)
      first = last = children_[first].front();
    std::string name = nodes_[first].name;
    if (!around.empty() && name.starts_with(std::string(around) + "."))
      name.erase(0, around.size() + 1);
    if (count > 1) name += fmt::format(" … {}, each", last_part(last));
    row(nodes_[first], printable(name), depth);
    if (depth < kDeepest) {
      print_siblings(children_[first], nodes_[first].name, depth + 1);
    } else {
      left_out_ += size_of(first) - 1;
    }
  }

  void row(const ModuleNode& node, const std::string& name, std::size_t depth) {
    std::string line = "  " + right(format_bytes(node.bytes), kWidth);
    for (const SourceColumn& column : columns_) {
      const std::uint64_t bytes = column.bytes(node);
      line += right(bytes == 0 ? "-" : format_bytes(bytes), kWidth);
    }
    line += "  " + std::string(std::min(2 * depth, kDeepestIndent), ' ');
    out_ += line + shortened(name, std::max(style_.width, line.size() + 8) - line.size()) + "\n";
  }

  void print_outside() {
    std::uint64_t inside = 0;
    for (const std::uint32_t root : children_.back()) inside += nodes_[root].bytes;
    if (inside >= peak_bytes_) return;
    out_ += "  " + right(format_bytes(peak_bytes_ - inside), kWidth) +
            std::string(columns_.size() * kWidth, ' ') + "  outside any module\n";
  }

  const std::vector<ModuleNode>& nodes_;
  std::uint64_t peak_bytes_;
  const TextStyle& style_;
  std::vector<std::vector<std::uint32_t>> children_;  // the last entry's are the roots
  std::vector<SourceColumn> columns_;
  std::size_t left_out_ = 0;
  std::string out_;
};

// A name of only stars ("*", "*.*") says nothing; the line that calls the module does.
bool has_name(const ModuleNode& node) {
  return node.name.find_first_not_of("*.") != std::string::npos;
}

// Modules by line: names that several lines share are distinguished by the line.
std::string line_tree(const DeviceOverview& device, const Store& store, const TextStyle& style) {
  const std::vector<ModuleNode>& modules = device.sources.modules;
  std::map<std::string, std::size_t> uses;
  for (const ModuleNode& node : modules) ++uses[module_name(node, store)];
  std::string rows;
  std::vector<std::size_t> depth(modules.size(), 0);
  constexpr std::uint64_t kSmallest = 1000;  // parts of the peak that are not worth a line
  for (std::size_t index = 0; index < modules.size(); ++index) {
    const ModuleNode& node = modules[index];
    if (node.parent != ModuleNode::kNoParent) depth[index] = depth[node.parent] + 1;
    if (node.bytes < device.sources.peak_bytes / kSmallest) continue;
    const std::string figures =
        fmt::format("  {} {} {}  ", right(percent(node.bytes, device.sources.peak_bytes), 7),
                    right(format_bytes(node.bytes), 9), right(grouped(node.blocks), 7));
    const std::size_t indent = std::min(2 * depth[index], 2 * kDeepestIndent);
    const std::size_t width = style.width - figures.size() - indent;
    std::string name = module_name(node, store);
    if (!has_name(node)) {
      name = place(store, node.frame, width);
    } else if (uses[name] > 1 && !node.frame.is_none()) {
      name += " at " + place(store, node.frame);
    }
    rows += figures + std::string(indent, ' ') + shortened(name, width) + "\n";
  }
  if (rows.empty())
    return "  No memory that was live at the peak was allocated in a module's forward().\n";
  return "  Live at the peak, by module (identified by the line that calls it, so\n  layers called "
         "in a loop are one entry)\n" +
         rows;
}

}  // namespace

std::string module_name(const ModuleNode& node, const Store& store) {
  return has_name(node) ? printable(node.name) : place(store, node.frame);
}

std::string module_tree(const DeviceOverview& device, const Store& store, const TextStyle& style) {
  if (!device.sources.has_module_instances) return line_tree(device, store, style);
  if (device.sources.modules.empty())
    return "  No memory that was live at the peak belongs to a module.\n";
  return InstanceTable(device, style).run();
}

}  // namespace gpumemprof::text
