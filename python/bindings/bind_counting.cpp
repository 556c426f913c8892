#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <mutex>

#include "bindings.h"
#include "capture/counting.h"

namespace gpumemprof::bindings {
namespace {

using capture::Ledger;

Ledger& ledger_of(int slot) {
  const bool is_slot = slot >= 0 && slot < static_cast<int>(capture::kDeviceSlots);
  Ledger* ledger = is_slot ? capture::counting_ledger(static_cast<std::uint8_t>(slot)) : nullptr;
  if (ledger == nullptr) throw nb::value_error("this device is not counted");
  return *ledger;
}

nb::object bytes_or_none(std::uint64_t bytes) {
  return bytes == kUnknownBytes ? nb::none() : nb::object(nb::int_(bytes));
}

nb::object bytes_or_none(const std::optional<std::uint64_t>& bytes) {
  return bytes ? nb::object(nb::int_(*bytes)) : nb::none();
}

// Whether completed frees are reported too; without them active bytes are not known.
bool attach_cuda_counting(int major, int minor) {
  Status tracked = Done{};
  const Status reported = [&] {
    const nb::gil_scoped_release no_gil;
    Status attached = capture::attach_cuda_report();
    if (attached) tracked = capture::attach_cuda({major, minor});
    return attached;
  }();
  if (!reported) raise(reported.error());
  return tracked.ok();
}

bool settle(int slot, std::uint64_t version, std::uint64_t allocated_bytes,
            std::uint64_t reserved_bytes, std::uint64_t most_allocated_bytes,
            std::uint64_t most_reserved_bytes,
            std::vector<std::pair<std::uint64_t, std::uint64_t>> pending) {
  return ledger_of(slot).settle(version, {allocated_bytes, reserved_bytes, most_allocated_bytes,
                                          most_reserved_bytes, std::move(pending)});
}

// What all processes and what this process hold on a card, by the card's id; None where NVML does
// not report it.
nb::tuple card_sample(const std::string& uuid) {
  static std::mutex mutex;
  static std::map<std::string, capture::Cards> cards;
  const std::vector<DeviceSample> samples = [&] {
    const nb::gil_scoped_release no_gil;
    const std::lock_guard lock(mutex);
    capture::Cards& card = cards[uuid];
    card.watch(0, uuid);
    return card.sample();
  }();
  if (samples.empty()) return nb::make_tuple(nb::none(), nb::none());
  return nb::make_tuple(bytes_or_none(samples.front().used_bytes),
                        bytes_or_none(samples.front().process_bytes));
}

std::unique_ptr<capture::Scope> open_scope(int slot, bool with_resident) {
  static_cast<void>(ledger_of(slot));
  auto scope = std::make_unique<capture::Scope>(static_cast<std::uint8_t>(slot), with_resident);
  scope->open();
  return scope;
}

std::unique_ptr<capture::Sampler> start_sampler(int slot, std::int64_t interval_ns,
                                                bool with_resident, const std::string& uuid) {
  static_cast<void>(ledger_of(slot));
  capture::SamplerOptions options;
  options.slot = static_cast<std::uint8_t>(slot);
  options.interval_ns = interval_ns;
  options.with_resident = with_resident;
  options.card_uuid = uuid;
  const nb::gil_scoped_release no_gil;
  return std::make_unique<capture::Sampler>(std::move(options));
}

void bind_figures(nb::module_& module) {
  using capture::LedgerState;
  using capture::ScopeFigures;
  using capture::Turnover;
  nb::class_<LedgerState>(module, "MemoryFigures")
      .def_ro("allocated_bytes", &LedgerState::allocated_bytes)
      .def_prop_ro("active_bytes",
                   [](const LedgerState& state) { return bytes_or_none(state.active_bytes); })
      .def_ro("reserved_bytes", &LedgerState::reserved_bytes)
      .def_ro("most_allocated_bytes", &LedgerState::most_allocated_bytes)
      .def_ro("most_reserved_bytes", &LedgerState::most_reserved_bytes);
  nb::class_<Turnover>(module, "Turnover")
      .def_ro("allocated_bytes", &Turnover::allocated_bytes)
      .def_ro("freed_bytes", &Turnover::freed_bytes)
      .def_ro("allocations", &Turnover::allocations)
      .def_ro("frees", &Turnover::frees)
      .def(
          "__eq__", [](const Turnover& one, const Turnover& other) { return one == other; },
          nb::is_operator());
  nb::class_<ScopeFigures>(module, "ScopeFigures")
      .def_ro("start_unix_ns", &ScopeFigures::start_unix_ns)
      .def_ro("duration_ns", &ScopeFigures::duration_ns)
      .def_ro("peak_after_ns", &ScopeFigures::peak_after_ns)
      .def_prop_ro("before", [](const ScopeFigures& figures) { return figures.reading.before; })
      .def_prop_ro("peak", [](const ScopeFigures& figures) { return figures.reading.peak; })
      .def_prop_ro("after", [](const ScopeFigures& figures) { return figures.reading.after; })
      .def_prop_ro("turnover", [](const ScopeFigures& figures) { return figures.reading.turnover; })
      .def_prop_ro("own", [](const ScopeFigures& figures) { return figures.reading.own; })
      .def_prop_ro("uncounted",
                   [](const ScopeFigures& figures) { return figures.reading.uncounted; })
      .def_ro("resident_before_bytes", &ScopeFigures::resident_before_bytes)
      .def_ro("resident_after_bytes", &ScopeFigures::resident_after_bytes);
}

// Of a sample: None where the card was not queried.
nb::object used_bytes(const capture::Sample& sample) {
  return sample.card ? bytes_or_none(sample.card->used_bytes) : nb::none();
}

nb::object process_bytes(const capture::Sample& sample) {
  return sample.card ? bytes_or_none(sample.card->process_bytes) : nb::none();
}

void bind_sampler(nb::module_& module) {
  nb::class_<capture::Sample>(module, "Sample")
      .def_ro("figures", &capture::Sample::figures)
      .def_prop_ro("card_used_bytes", used_bytes)
      .def_prop_ro("card_process_bytes", process_bytes);
  nb::class_<capture::TakenSamples>(module, "TakenSamples")
      .def_ro("samples", &capture::TakenSamples::samples)
      .def_ro("dropped", &capture::TakenSamples::dropped);
  module.def("start_sampler", start_sampler, nb::arg("slot"), nb::arg("interval_ns"),
             nb::arg("with_resident"), nb::arg("card_uuid"));
  nb::class_<capture::Sampler>(module, "Sampler")
      .def("take", &capture::Sampler::take)
      .def("stop", &capture::Sampler::stop, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void bind_counting(nb::module_& module) {
  bind_figures(module);
  bind_sampler(module);
  module.attr("CPU_SLOT") = static_cast<int>(capture::kCpuSlot);
  module.def("counting_attach_cuda", attach_cuda_counting, nb::arg("major"), nb::arg("minor"));
  module.def(
      "counting_start",
      [](int slot, bool follows_completions) {
        return capture::start_counting(static_cast<std::uint8_t>(slot), follows_completions);
      },
      nb::arg("slot"), nb::arg("follows_completions"));
  module.def(
      "counting_stop", [](int slot) { capture::stop_counting(static_cast<std::uint8_t>(slot)); },
      nb::arg("slot"));
  module.def(
      "counting_version", [](int slot) { return ledger_of(slot).version(); }, nb::arg("slot"));
  module.def("counting_settle", settle, nb::arg("slot"), nb::arg("version"),
             nb::arg("allocated_bytes"), nb::arg("reserved_bytes"), nb::arg("most_allocated_bytes"),
             nb::arg("most_reserved_bytes"), nb::arg("pending"));
  module.def(
      "counting_knows",
      [](int slot) {
        Ledger& ledger = ledger_of(slot);
        return nb::make_tuple(ledger.knows_totals(), ledger.knows_active());
      },
      nb::arg("slot"));
  module.def("counting_now", [](int slot) { return ledger_of(slot).now(); }, nb::arg("slot"));
  module.def(
      "counting_turnover", [](int slot) { return ledger_of(slot).turnover(); }, nb::arg("slot"));
  module.def("card_sample", card_sample, nb::arg("uuid"));
  module.def("resident_bytes", [] { return bytes_or_none(capture::resident_bytes()); });
  module.def("open_scope", open_scope, nb::arg("slot"), nb::arg("with_resident"));
  nb::class_<capture::Scope>(module, "Scope")
      .def("close", &capture::Scope::close)
      .def("turn_over", &capture::Scope::turn_over);
}

}  // namespace gpumemprof::bindings
