#include "redirect/untouched.h"

#include <fcntl.h>

#include <atomic>

#include "redirect/place.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

// `checked` is the hash of the folder's path, mixed with the value: a pair that two threads wrote
// is no match.
struct Remembered {
  std::atomic<uint64_t> checked;
  std::atomic<uint64_t> value;
};
constexpr uint64_t kFolders = 512;
Remembered remembered[kFolders];

// The value: whether the folder was untouched, its bit in the shared state, and how often folders
// had changed.
constexpr uint64_t kUntouched = 1;
constexpr uint64_t kBitShift = 1;
constexpr uint64_t kChangesShift = 24;
static_assert(SharedState::kBits << kBitShift <= uint64_t{1} << kChangesShift);

uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 32U)) * 0x9e3779b97f4a7c15U;
  return value ^ (value >> 29U);
}

// Of what can be seen below /proc, nothing stays.
bool leads_to_untouched(const PathText& folder, uint64_t& bit) {
  Place place;
  if (resolve(AT_FDCWD, folder.c_str(), LastLink::follow, place) < 0 || !place.is_folder() ||
      place.is_written || place.hides_real || is_below(place.path.view(), "/proc")) {
    return false;
  }
  bit = Scratch::bit_of(path_hash(place.path.view()));
  return place.is_real_only || !scratch().is_touched_bit(bit);
}

}  // namespace

bool is_in_untouched_folder(int folder_fd, const char* path) {
  const std::string_view text = path == nullptr ? "" : path;
  const size_t slash = text.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? text : part_of(text, slash + 1);
  if (name.empty() || name == "." || name == "..") {
    return false;
  }
  PathText folder;
  if (text.front() != '/' && path_of_descriptor(folder_fd, folder) < 0) {
    return false;
  }
  if (slash != std::string_view::npos) {
    folder.append(text.front() == '/' ? "" : "/");
    folder.append(part_of(text, 0, slash));
  }
  if (folder.is_too_long() || folder.size() == 0) {
    return false;
  }
  const Scratch& shared = scratch();
  const uint64_t hash = mixed(path_hash(folder.view()));
  const uint64_t changes = shared.folder_changes();
  Remembered& slot = remembered[hash % kFolders];
  uint64_t value = slot.value.load(std::memory_order_acquire);
  if (slot.checked.load(std::memory_order_acquire) != (hash ^ mixed(value)) ||
      value >> kChangesShift != changes) {
    uint64_t bit = 0;
    const bool is_untouched = leads_to_untouched(folder, bit);
    value = (changes << kChangesShift) | (bit << kBitShift) | (is_untouched ? kUntouched : 0);
    slot.checked.store(hash ^ mixed(value), std::memory_order_release);
    slot.value.store(value, std::memory_order_release);
  }
  const uint64_t bit = (value >> kBitShift) % SharedState::kBits;
  return (value & kUntouched) != 0 && !shared.is_touched_bit(bit);
}

}  // namespace gpumemprof::redirect
