// Prints what each device's memory was used for at its peak, its largest steps, and the remedy that
// would save most.
#include <gpumemprof/reader.h>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

namespace {

std::string mib(std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

void print_device(const gpumemprof::Device& device) {
  std::cout << device.name() << ": peak " << mib(device.peak().allocated_bytes) << " allocated";
  if (const auto reserved = device.peak_reserved_bytes())
    std::cout << ", " << mib(*reserved) << " reserved";
  std::cout << '\n';

  for (const gpumemprof::Source& source : device.sources()) {
    if (source.bytes_at_peak == 0) continue;
    std::cout << "  " << std::left << std::setw(16) << source.name << mib(source.bytes_at_peak)
              << '\n';
  }

  std::vector<gpumemprof::Step> steps;
  for (const gpumemprof::Step& step : device.steps()) steps.push_back(step);
  std::sort(steps.begin(), steps.end(),
            [](const auto& a, const auto& b) { return a.peak_bytes > b.peak_bytes; });
  constexpr std::size_t kShown = 3;
  for (std::size_t row = 0; row < std::min(kShown, steps.size()); ++row)
    std::cout << "  step " << steps[row].step << ": " << mib(steps[row].peak_bytes) << '\n';
}

// The line of the program behind the largest allocation that is never freed.
void print_largest(const gpumemprof::Recording& recording, const gpumemprof::Device& device) {
  std::optional<gpumemprof::Allocation> largest;
  for (const gpumemprof::Allocation& allocation : device.allocations()) {
    if (!allocation.free_event && (!largest || allocation.size_bytes > largest->size_bytes))
      largest = allocation;
  }
  if (!largest) return;
  std::cout << "  largest at the end: " << mib(largest->size_bytes) << " of " << largest->source;
  if (const auto line = recording.line(largest->stack))
    std::cout << ", " << line->file << ':' << line->line;
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "Usage: largest_steps RECORDING\n";
    return GPUMEMPROF_USAGE;
  }
  const auto recording = gpumemprof::Recording::open(argv[1]);
  if (!recording) {
    std::cerr << recording.error().sentence << '\n';
    return recording.error().kind;
  }
  for (const gpumemprof::Device& device : recording->devices()) {
    print_device(device);
    print_largest(*recording, device);
  }
  const auto advice = recording->advise();
  if (!advice) return 0;
  for (const gpumemprof::Remedy& remedy : advice->remedies()) {
    if (remedy.saving_bytes.value_or(0) <= 0) continue;
    std::cout << "Saves most: " << remedy.title << ", predicted peak "
              << mib(remedy.peak_allocated->low_bytes) << " to "
              << mib(remedy.peak_allocated->high_bytes) << '\n';
    break;
  }
  return 0;
}
