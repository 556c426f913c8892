#include "report/text/overview/sources_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/modules/modules.h"
#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/modules_text.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

std::string capitalized(std::string_view text) {
  std::string result(text);
  if (!result.empty() && result[0] >= 'a' && result[0] <= 'z')
    result[0] = static_cast<char>(result[0] - 'a' + 'A');
  return result;
}

// "3.1 of 4.8 GiB": the unit only once where both have the same.
std::string part_of_whole(std::uint64_t part, std::uint64_t whole) {
  std::string small = format_bytes(part);
  const std::string large = format_bytes(whole);
  const std::size_t blank = small.rfind(' ');
  if (blank != std::string::npos && large.ends_with(small.substr(blank))) small.resize(blank);
  return small + " of " + large;
}

std::string peak_place(const DeviceSources& sources) {
  if (sources.is_end_of_forward) return ", at the end of forward";
  if (sources.is_start_of_backward) return ", at the start of backward";
  switch (sources.peak_phase) {
    case Phase::forward:
      return ", in forward";
    case Phase::backward:
      return ", in backward";
    case Phase::optimizer_step:
      return ", in the optimizer's step";
    case Phase::evaluation:
      return ", in evaluation";
    case Phase::other:
      break;
  }
  const bool has_steps = !sources.steps.empty() && sources.kind != RunKind::inference;
  return sources.peak_event != kNoEvent && sources.peak_step == 0 && has_steps
             ? ", before the first step"
             : "";
}

MemorySource largest_source(const DeviceSources& sources) {
  return *std::max_element(
      kMemorySources.begin(), kMemorySources.end(), [&](MemorySource a, MemorySource b) {
        return sources.figure(a).bytes_at_peak < sources.figure(b).bytes_at_peak;
      });
}

bool is_most(std::uint64_t part, std::uint64_t whole) { return part > whole / 2; }

std::string unknown_sentence(const DeviceSources& sources) {
  const std::uint64_t bytes = sources.figure(MemorySource::unknown).bytes_at_peak;
  return fmt::format("The source of {} of the peak is unknown: {}{}.",
                     is_most(bytes, sources.peak_bytes) ? "most" : "the largest part",
                     part_of_whole(bytes, sources.peak_bytes),
                     sources.has_stacks ? "" : "; no stacks were recorded");
}

std::string run_kind_sentence(const DeviceSources& sources) {
  if (sources.kind == RunKind::inference) return " There is no backward: this run is inference.";
  const bool has_forward =
      std::any_of(sources.phases.begin(), sources.phases.end(),
                  [](const PhaseFigures& phase) { return phase.phase == Phase::forward; });
  if (sources.kind == RunKind::unknown && has_forward) {
    return " No backward was recorded; forward kept its outputs, as it does in training.";
  }
  return "";
}

// People who serve a model call its parameters weights.
std::string_view name_in(const DeviceSources& sources, MemorySource source) {
  const bool is_inference = sources.kind == RunKind::inference;
  return is_inference && source == MemorySource::parameters
             ? "weights"
             : memory_source_info(source).display_name;
}

std::uint64_t bytes_of(const SourceBytes& bytes, MemorySource source) { return bytes[source]; }

class SourceTable {
 public:
  SourceTable(const DeviceOverview& device, std::string_view measured, const TextStyle& style)
      : device_(device), measured_(measured), style_(style), whole_(device.memory.reserved_bytes) {}

  std::string run(const std::string& moment, bool has_pool) {
    if (!has_pool) whole_ = device_.memory.allocated_bytes;
    heading(moment);
    for (const MemorySource source : sorted()) source_row(source);
    if (device_.asked_sources.rounding > 0) {
      row(device_.asked_sources.rounding, "rounding: blocks are larger than requested",
          device_.sources.rounding.bytes_max, "");
    }
    if (has_pool) pool_rows();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kFigures = 22;  // share and bytes, with the blanks after them
  static constexpr std::size_t kMax = 10;

  void heading(const std::string& moment) {
    const bool is_measured = std::all_of(
        device_.sources.figures.begin(), device_.sources.figures.end(),
        [](const SourceFigure& figure) { return figure.provenance == Provenance::measured; });
    const std::string how = is_measured ? std::string(measured_)
                            : device_.sources.has_labels
                                ? fmt::format("{} where not marked", measured_)
                                : "inferred";
    const std::string title = fmt::format("  Memory {}, by source ({})", moment, how);
    out_ += left(title, name_end()) + right("max", kMax) + "\n";
  }

  [[nodiscard]] std::size_t name_end() const {
    const std::size_t wide = std::min<std::size_t>(style_.width, 80);
    return wide - kMax;
  }

  // Most bytes first; unknown last.
  [[nodiscard]] std::vector<MemorySource> sorted() const {
    std::vector<MemorySource> order(kMemorySources.begin(), kMemorySources.end() - 1);
    std::stable_sort(order.begin(), order.end(), [&](MemorySource a, MemorySource b) {
      return bytes_of(device_.asked_sources, a) > bytes_of(device_.asked_sources, b);
    });
    order.push_back(MemorySource::unknown);
    return order;
  }

  void source_row(MemorySource source) {
    const SourceFigure& figure = device_.sources.figure(source);
    if (figure.bytes_max == 0 && source != MemorySource::unknown) return;
    std::string name(name_in(device_.sources, source));
    const std::uint64_t buffers = device_.sources.buffer_bytes_at_peak.value_or(0);
    if (source == MemorySource::parameters && buffers > 0)
      name += fmt::format(", {} of them buffers", format_bytes(buffers));
    if (device_.sources.has_labels && figure.provenance != Provenance::measured &&
        figure.bytes_max > 0)
      name += fmt::format(" ({})", provenance_name(figure.provenance));
    row(bytes_of(device_.asked_sources, source), name, figure.bytes_max, "");
  }

  void row(std::uint64_t bytes, const std::string& name, std::optional<std::uint64_t> most,
           const std::string& share) {
    std::string line = "  " + right(share.empty() ? percent(bytes, whole_) : share, 7) + " " +
                       right(format_bytes(bytes), 9) + "  " + name;
    if (most) {
      const std::size_t used = line.size();
      line += std::string(used < name_end() ? name_end() - used : 1, ' ') +
              right(format_bytes(*most), kMax);
    }
    out_ += line + "\n";
  }

  // What is reserved beyond what is allocated: a pool keeps memory that was freed. Whole segments
  // serve any request of their pool; a gap only what fits into it.
  void pool_rows() {
    const FreeMemory& memory = device_.memory;
    if (memory.waiting_bytes > 0)
      row(memory.waiting_bytes, "freed, still in use by another stream", std::nullopt, "");
    if (memory.whole_segment_bytes > 0)
      row(memory.whole_segment_bytes, "cached: whole free segments, reusable", std::nullopt, "");
    if (memory.hole_bytes > 0) {
      row(memory.hole_bytes,
          fmt::format("fragmentation: gaps between live blocks, up to {}",
                      format_bytes(memory.largest_hole_bytes)),
          std::nullopt, "");
    }
    row(memory.reserved_bytes, "reserved by PyTorch", std::nullopt, "");
    if (!device_.card_usage)
      out_ += std::string(kFigures - 14, ' ') + "not recorded  outside PyTorch's pool\n";
  }

  const DeviceOverview& device_;
  std::string_view measured_;
  const TextStyle& style_;
  std::uint64_t whole_;
  std::string out_;
};

// In a sentence, the "2" of a Sequential needs to be called a module.
std::string module_in_sentence(const ModuleNode& node, const Store& store) {
  const std::string name = module_name(node, store);
  const bool is_number = !name.empty() && name[0] >= '0' && name[0] <= '9';
  if (!is_number) return name;
  const auto is_root = [](const ModuleLabel& module) { return module.is_root; };
  const auto& modules = store.modules();
  if (std::ranges::count_if(modules, is_root) != 1) return "module " + name;
  const ModuleLabel& root = *std::ranges::find_if(modules, is_root);
  return printable(store.text(root.class_name)) + "." + name;
}

std::string_view verb_of_share(bool is_most, bool is_plural) {
  if (is_most) return is_plural ? "dominate" : "dominates";
  return is_plural ? "are the largest part of" : "is the largest part of";
}

}  // namespace

std::string source_sentence(const DeviceOverview& device, const Store& store) {
  const DeviceSources& sources = device.sources;
  if (sources.peak_bytes == 0) return "";
  const MemorySource main = largest_source(sources);
  if (main == MemorySource::unknown) return unknown_sentence(sources);
  const std::uint64_t bytes = sources.figure(main).bytes_at_peak;
  const bool is_plural = memory_source_info(main).is_plural;
  std::string sentence = fmt::format("{} {} the peak: {}{}", capitalized(name_in(sources, main)),
                                     verb_of_share(is_most(bytes, sources.peak_bytes), is_plural),
                                     part_of_whole(bytes, sources.peak_bytes), peak_place(sources));
  if (const auto module = main_module(store, sources.modules, main, bytes)) {
    const ModuleNode& node = sources.modules[*module];
    sentence += fmt::format("; {} of {} in {}", percent(node.by_source[main], bytes),
                            is_plural ? "them" : "it", module_in_sentence(node, store));
  }
  return sentence + "." + run_kind_sentence(sources);
}

std::string source_table(const DeviceOverview& device, const std::string& moment, bool has_pool,
                         std::string_view measured, const TextStyle& style) {
  return SourceTable(device, measured, style).run(moment, has_pool);
}

}  // namespace gpumemprof::text
