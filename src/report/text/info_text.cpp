#include "report/text/info_text.h"

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/heading/heading_text.h"
#include "report/text/overview/completeness_text.h"
#include "report/text/page.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

using text::grouped;

constexpr std::size_t kNameWidth = 11;

class InfoWriter : private text::Page {
 public:
  InfoWriter(const RecordingInfo& info, const TextStyle& style)
      : Page(style.width, style.has_color), info_(info), width_(style.width) {}

  std::string run() {
    const auto& size = info_.file.size_bytes;
    headline(fmt::format("{}: {}{}", text::file_name(info_.file.path), format_name(),
                         size ? ", " + format_bytes(*size) : ""));
    for (const std::string& sentence : text::missing_sentences(info_.completeness))
      paragraph(sentence, 0);
    row("ended", ending());
    row("events", events());
    row("chapters", chapters());
    for (std::size_t index = 0; index < info_.devices.size(); ++index)
      row(index == 0 ? "devices" : "", device(info_.devices[index]));
    row("recorded by", versions());
    row("process", process());
    row("command", info_.command.value_or(""));
    row("capture", info_.capture_mode.value_or(""));
    row("available", available());
    line("\nNext: where the memory went\n  gpumemprof report " + text::quoted(info_.file.path));
    return std::move(out_);
  }

 private:
  // Nothing where the text is empty: what is not known is left out.
  void row(std::string_view name, const std::string& text) {
    if (text.empty()) return;
    line("  " + text::left(name, kNameWidth) + "  " +
         text::wrapped(printable(text), width_, kNameWidth + 4));
  }

  [[nodiscard]] std::string chapters() const {
    const std::vector<ChapterFigures>& all = info_.completeness.chapters;
    if (all.empty()) return "";
    std::uint64_t kept = 0;
    std::uint64_t kept_bytes = 0;
    for (const ChapterFigures& chapter : all) {
      kept += chapter.is_kept ? 1 : 0;
      kept_bytes += chapter.is_kept ? chapter.size_bytes : 0;
    }
    return fmt::format("{} of {} in full detail, {}", grouped(kept), grouped(all.back().number),
                       format_bytes(kept_bytes));
  }

  [[nodiscard]] std::string format_name() const {
    if (!info_.completeness.chapters.empty()) return "gpumemprof recording in chapters";
    if (!info_.file.format_version) return text::recording_kind(info_.kind);
    return fmt::format("gpumemprof recording, format version {}", *info_.file.format_version);
  }

  [[nodiscard]] std::string ending() const {
    if (info_.cut && !info_.completeness.chapters.empty())
      return "incomplete: " + info_.cut->reason;
    if (info_.cut)
      return fmt::format("truncated: at byte {}, {}", grouped(info_.cut->byte_offset),
                         info_.cut->reason);
    if (!info_.completeness.is_recording) return "";
    return info_.completeness.is_closed ? info_.completeness.reason : "not closed";
  }

  [[nodiscard]] std::string events() const {
    const Completeness& found = info_.completeness;
    std::string recorded = grouped(found.recorded.total()) + " recorded";
    if (!found.made || !found.lost) return recorded;
    return fmt::format("{} made, {}, {} lost", grouped(found.made->total()), recorded,
                       grouped(found.lost->total()));
  }

  static std::string device(const DeviceInfo& device) {
    std::string text = device.device;
    if (device.name) text += ", " + *device.name;
    if (device.total_bytes) text += ", " + format_bytes(*device.total_bytes);
    return text;
  }

  [[nodiscard]] std::string versions() const {
    std::string text;
    const auto add = [&](const char* name, const std::optional<std::string>& version) {
      if (version) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, *version);
    };
    add("gpumemprof", info_.gpumemprof_version);
    add("torch", info_.torch_version);
    add("Python", info_.python_version);
    return text;
  }

  [[nodiscard]] std::string process() const {
    std::string text;
    if (info_.process_id) text = *info_.process_id;
    if (info_.host) text += (text.empty() ? "on " : " on ") + *info_.host;
    if (info_.rank) text += (text.empty() ? "rank " : ", rank ") + *info_.rank;
    return text;
  }

  [[nodiscard]] std::string available() const {
    std::string text;
    const auto add = [&](bool is_there, const char* what) {
      if (is_there) text += (text.empty() ? "" : ", ") + std::string(what);
    };
    add(info_.has_history, "history");
    add(info_.has_stacks, "stacks");
    add(info_.has_forward_stacks, "forward stacks of backward");
    add(info_.has_modules, "modules");
    add(info_.has_labels, "labels");
    add(info_.has_card_samples, "samples of the whole card");
    return text.empty() ? "nothing" : text;
  }

  const RecordingInfo& info_;
  std::size_t width_;
};

}  // namespace

std::string info_text(const RecordingInfo& info, const TextStyle& style) {
  return printable_page(InfoWriter(info, style).run(), style.has_color);
}

}  // namespace gpumemprof
