#include "report/terminal/tree_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "analysis/calls/call_tree.h"
#include "analysis/code/user_frame.h"
#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/heading/heading_text.h"
#include "report/text/page.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kDeepestTreeIndent = 24;  // then the figures alone show how deep it is
constexpr std::size_t kLeastTreePlace = 16;     // columns for a line of code

class TreeWriter : private text::Page {
 public:
  TreeWriter(const DeviceOverview& device, const Store& store, const TreeStyle& style)
      : Page(style.text.width, style.text.has_color),
        device_(device),
        store_(store),
        style_(style),
        tree_(make_call_tree(device.live, store)) {
    children_.resize(tree_.nodes.size() + 1);
    for (std::uint32_t index = 0; index < tree_.nodes.size(); ++index) {
      const std::uint32_t parent = tree_.nodes[index].parent;
      children_[parent == CallNode::kNoParent ? tree_.nodes.size() : parent].push_back(index);
    }
    mark_largest();
  }

  std::string run() {
    line(bold(fmt::format("{}: {} in {} live {}, by call stack", device_.name,
                          format_bytes(tree_.allocated_bytes), text::counted(tree_.blocks, "block"),
                          text::asked_text(device_))));
    if (device_.replay.has_history && device_.asked.kind != AskedMoment::Kind::end)
      paragraph(text::when_text(device_.asked_when, device_.events, store_), 2);
    if (tree_.nodes.empty()) return std::move(out_);
    line("");
    print();
    if (has_folded_) paragraph("(+N): so many calls more, which lead to one place only.", 2);
    if (style_.text.top < device_.live.groups.size())
      paragraph(fmt::format("The {} are shown, of {}: --top N shows more.",
                            text::counted(style_.text.top, "largest stack"),
                            text::grouped(device_.live.groups.size())),
                2);
    return std::move(out_);
  }

 private:
  struct Open {
    std::uint32_t node = 0;
    std::size_t depth = 0;
    std::vector<std::uint32_t> left_out;  // instead of a node: its siblings that are not shown
  };

  // Groups are sorted: the first are the largest. What leads to one of them is shown.
  void mark_largest() {
    is_shown_.resize(tree_.nodes.size(), false);
    for (std::uint32_t index = 0; index < tree_.nodes.size(); ++index) {
      if (tree_.nodes[index].group >= style_.text.top) continue;
      for (std::uint32_t at = index; at != CallNode::kNoParent && !is_shown_[at];
           at = tree_.nodes[at].parent)
        is_shown_[at] = true;
    }
  }

  void print() {
    std::vector<Open> open;  // the next one last
    push_children(tree_.nodes.size(), 0, open);
    while (!open.empty()) {
      const Open next = std::move(open.back());
      open.pop_back();
      if (!next.left_out.empty()) {
        print_left_out(next);
        continue;
      }
      const std::uint32_t last = print_chain(next);
      push_children(last, next.depth + 1, open);
    }
  }

  void push_children(std::size_t parent, std::size_t depth, std::vector<Open>& open) const {
    Open rest{0, depth, {}};
    std::vector<Open> shown;
    for (const std::uint32_t child : children_[parent]) {
      if (is_shown_[child]) {
        shown.push_back({child, depth, {}});
      } else {
        rest.left_out.push_back(child);
      }
    }
    if (!rest.left_out.empty()) open.push_back(std::move(rest));
    open.insert(open.end(), shown.rbegin(), shown.rend());
  }

  // Whether all of a node's memory comes from its only child.
  [[nodiscard]] bool leads_to_one(std::uint32_t node) const {
    return tree_.nodes[node].self_blocks == 0 && children_[node].size() == 1;
  }

  [[nodiscard]] bool is_users(std::uint32_t node) const {
    const FrameId frame = tree_.nodes[node].frame;
    return !frame.is_none() && !is_library_file(store_.text(store_.frame(frame).file));
  }

  // Prints calls that lead to one place only as one line, which names the innermost of the user's
  // own lines among them, and below it where in a library it ends. Returns the last of them.
  std::uint32_t print_chain(const Open& first) {
    std::uint32_t last = first.node;
    std::uint32_t named = first.node;
    std::size_t folded = 0;
    while (!style_.shows_all_calls && leads_to_one(last) &&
           !tree_.nodes[children_[last].front()].is_backward) {
      last = children_[last].front();
      ++folded;
      if (is_users(last) || !is_users(named)) named = last;
    }
    has_folded_ |= folded > 0;
    const std::string note = folded == 0 ? "" : fmt::format(" (+{})", text::grouped(folded));
    row(tree_.nodes[first.node], named, first.depth, note);
    if (last != named) library_row(last, first.depth);
    return last;
  }

  static std::size_t indent_of(std::size_t depth) {
    return std::min(2 * depth, kDeepestTreeIndent);
  }

  [[nodiscard]] static std::string figures(const std::string& share, const std::string& bytes,
                                           const std::string& blocks) {
    return fmt::format("  {} {} {}  ", text::right(share, 7), text::right(bytes, 9),
                       text::right(blocks, 7));
  }

  [[nodiscard]] std::string fitted_place(std::uint32_t node, std::size_t used) const {
    const std::size_t width = std::max(style_.text.width, used + kLeastTreePlace) - used;
    if (tree_.nodes[node].is_backward) return text::shortened("in its backward", width);
    return text::place(store_, tree_.nodes[node].frame, width);
  }

  void row(const CallNode& node, std::uint32_t named, std::size_t depth, const std::string& note) {
    const std::string start = figures(text::percent(node.bytes, tree_.allocated_bytes),
                                      format_bytes(node.bytes), text::grouped(node.blocks)) +
                              std::string(indent_of(depth), ' ');
    line(start + fitted_place(named, start.size() + note.size()) + note);
  }

  void library_row(std::uint32_t node, std::size_t depth) {
    const std::string start = figures("", "", "") + std::string(indent_of(depth), ' ') + "  in ";
    line(start + fitted_place(node, start.size()));
  }

  void print_left_out(const Open& rest) {
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    for (const std::uint32_t node : rest.left_out) {
      bytes += tree_.nodes[node].bytes;
      blocks += tree_.nodes[node].blocks;
    }
    line(figures(text::percent(bytes, tree_.allocated_bytes), format_bytes(bytes),
                 text::grouped(blocks)) +
         std::string(indent_of(rest.depth), ' ') +
         text::counted(rest.left_out.size(), "more call"));
  }

  const DeviceOverview& device_;
  const Store& store_;
  const TreeStyle& style_;
  CallTree tree_;
  std::vector<std::vector<std::uint32_t>> children_;  // the last entry's are the roots
  std::vector<bool> is_shown_;
  bool has_folded_ = false;
};

}  // namespace

std::string tree_text(const Overview& overview, const Store& store, const TreeStyle& style) {
  std::string out = text::heading_text(overview, store, style.text.width);
  for (const DeviceOverview& device : overview.devices)
    out += "\n" + TreeWriter(device, store, style).run();
  const std::string file = text::quoted(overview.path);
  if (!overview.devices.empty())
    out +=
        "\nNext: all lines that allocated, sorted and searched\n  gpumemprof table " + file + "\n";
  return printable_page(out, style.text.has_color);
}

}  // namespace gpumemprof
