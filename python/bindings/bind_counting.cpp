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

nb::tuple to_tuple(const capture::LedgerState& state) {
  return nb::make_tuple(state.allocated_bytes, bytes_or_none(state.active_bytes),
                        state.reserved_bytes, state.most_allocated_bytes,
                        state.most_reserved_bytes);
}

nb::tuple to_tuple(const capture::Turnover& turnover) {
  return nb::make_tuple(turnover.allocated_bytes, turnover.freed_bytes, turnover.allocations,
                        turnover.frees);
}

nb::object to_object(const std::optional<capture::ScopeFigures>& figures) {
  if (!figures) return nb::none();
  const capture::ScopeReading& reading = figures->reading;
  return nb::make_tuple(figures->start_unix_ns, figures->duration_ns, figures->peak_after_ns,
                        to_tuple(reading.before), to_tuple(reading.peak), to_tuple(reading.after),
                        to_tuple(reading.turnover),
                        reading.own ? nb::object(to_tuple(*reading.own)) : nb::none(),
                        reading.uncounted, bytes_or_none(figures->resident_before_bytes),
                        bytes_or_none(figures->resident_after_bytes));
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

// How many were dropped, and the samples as (figures, used on the card, of that by this process).
nb::tuple take_samples(capture::Sampler& sampler) {
  const capture::TakenSamples taken = sampler.take();
  nb::list samples;
  for (const capture::Sample& sample : taken.samples) {
    const DeviceSample card = sample.card.value_or(DeviceSample{});
    samples.append(nb::make_tuple(to_object(sample.figures), bytes_or_none(card.used_bytes),
                                  bytes_or_none(card.process_bytes)));
  }
  return nb::make_tuple(taken.dropped, samples);
}

}  // namespace

void bind_counting(nb::module_& module) {
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
  module.def(
      "counting_now", [](int slot) { return to_tuple(ledger_of(slot).now()); }, nb::arg("slot"));
  module.def(
      "counting_turnover", [](int slot) { return to_tuple(ledger_of(slot).turnover()); },
      nb::arg("slot"));
  module.def("card_sample", card_sample, nb::arg("uuid"));
  module.def("resident_bytes", [] { return bytes_or_none(capture::resident_bytes()); });
  module.def("open_scope", open_scope, nb::arg("slot"), nb::arg("with_resident"));
  nb::class_<capture::Scope>(module, "Scope")
      .def("close", [](capture::Scope& scope) { return to_object(scope.close()); })
      .def("turn_over", [](capture::Scope& scope) { return to_object(scope.turn_over()); });
  module.def("start_sampler", start_sampler, nb::arg("slot"), nb::arg("interval_ns"),
             nb::arg("with_resident"), nb::arg("card_uuid"));
  nb::class_<capture::Sampler>(module, "Sampler")
      .def("take", take_samples)
      .def("stop", &capture::Sampler::stop, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace gpumemprof::bindings
