#include "session/long_view/stretch.h"

#include <algorithm>

#include "session/excerpt/indexed_part.h"

namespace gpumemprof {
namespace {

// Measured: events, allocations, timeline and groups; and what one definition takes.
constexpr std::size_t kBytesPerEvent = 150;
constexpr std::size_t kBytesPerDefinition = 64;

// Reading takes a part of the time: the rest needs no lock.
class UnlockingSource final : public EventSource {
 public:
  UnlockingSource(ExcerptSource& source, std::unique_lock<std::mutex>& lock)
      : source_(source), lock_(lock) {}
  Status deliver(EventSink& sink) override {
    Status delivered = source_.deliver(sink);
    lock_.unlock();
    return delivered;
  }

 private:
  ExcerptSource& source_;
  std::unique_lock<std::mutex>& lock_;
};

}  // namespace

Result<std::shared_ptr<const Stretch>> Stretch::open(const RunIndex& index, DeviceIndex device,
                                                     std::uint32_t from, std::uint32_t to,
                                                     const Run& run) {
  std::unique_lock lock(*run.reading);
  Result<std::unique_ptr<ExcerptSource>> source = index.excerpt(device, from, to);
  if (!source) return source.error();
  const std::uint32_t run_events = index.checkpoints(device).back();
  UnlockingSource unlocking(*source.value(), lock);
  const Result<std::shared_ptr<const Recording>> recording =
      Recording::from_excerpt(unlocking, index.at_peak().path, [&] {
        KnownPart known = known_part(source.value()->excerpt(), run_events, run.start_ns);
        known.places = run.places;
        return std::vector<KnownPart>{std::move(known)};
      });
  if (!recording) return recording.error();
  const Excerpt& excerpt = source.value()->excerpt();
  const Store& store = recording.value()->store();
  const std::optional<std::size_t> row = store.device_row(device);
  GMP_CHECK(row);
  const std::shared_ptr<Stretch> stretch(new Stretch());
  const KnownPart* known = recording.value()->known_part(device);
  stretch->numbers_.range = known->range;
  for (const KnownPart::Allocation& old : known->allocations) {
    if (old.event < excerpt.prelude) stretch->numbers_.births.emplace_back(old.event, old.birth);
  }
  stretch->size_bytes_ = (store.devices()[*row]->events.size() * kBytesPerEvent) +
                         ((store.stacks().size() + store.strings().size()) * kBytesPerDefinition);
  stretch->view_ = std::make_unique<DeviceView>(recording.value(), *row, run.groups);
  return std::shared_ptr<const Stretch>(stretch);
}

std::optional<AllocationId> Stretch::find(std::uint64_t shown_row) const {
  const view::AllocationSource shown = source();
  const std::size_t rows = view_->record().allocations.size();
  for (std::size_t row = 0; row < rows; ++row) {
    if (shown.shown_row(row) == shown_row) return AllocationId(row);
  }
  return std::nullopt;
}

}  // namespace gpumemprof
