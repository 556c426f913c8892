#include "capture/hooks/tensor_places.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

// Byte offsets into torch's objects.
struct TensorLayout {
  std::size_t tensor_in_object = 0;
  std::size_t storage_in_tensor = 0;
  std::size_t address_in_storage = 0;
  std::size_t gradient_in_meta = 0;
};
// A tensor's autograd metadata pointer comes right after its storage pointer.
constexpr std::size_t kMetaBehindStorage = 8;

// The Python object holds its tensor after its header, or after an additional flag that says
// whether it owns the tensor. Tensors and storages begin with a vtable pointer and their reference
// counts, which take 8 or 16 bytes. Before a gradient comes a name, a string of 8 or 32 bytes,
// depending on the compiler's ABI.
constexpr std::size_t kBehindHead = 16;
constexpr std::size_t kBehindFlag = 24;
constexpr std::array<std::size_t, 2> kTensorInObject = {kBehindHead, kBehindFlag};
constexpr std::array<std::size_t, 2> kBehindCounts = {16, 24};
constexpr std::array<std::size_t, 2> kGradientInMeta = {40, 16};

TensorLayout g_tensor_layout;  // valid once g_is_tensor_layout_valid
std::uint64_t g_no_gradient = 0;
std::atomic<bool> g_is_tensor_layout_valid{false};

std::uint64_t word_at(std::uint64_t address) { return read_raw<std::uint64_t>(address); }

// None if no memory is mapped there: with a wrong layout the address may be anything.
std::optional<std::uint64_t> word_if_any(std::uint64_t address) {
  std::uint64_t word = 0;
  const iovec to = {&word, sizeof(word)};
  const iovec from = {pointer_at<void>(address), sizeof(word)};
  const ssize_t count = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
  if (count != static_cast<ssize_t>(sizeof(word))) return std::nullopt;
  return word;
}

std::optional<std::uint64_t> storage_if_any(std::uint64_t tensor, const TensorLayout& layout) {
  const auto storage = word_if_any(tensor + layout.storage_in_tensor);
  if (!storage) return std::nullopt;
  return word_if_any(*storage + layout.address_in_storage);
}

// The gradient, or torch's object for an undefined tensor; none if the layout is wrong.
std::optional<std::uint64_t> gradient_if_any(std::uint64_t tensor, const TensorLayout& layout) {
  const auto meta = word_if_any(tensor + layout.storage_in_tensor + kMetaBehindStorage);
  if (!meta) return std::nullopt;
  return word_if_any(*meta + layout.gradient_in_meta);
}

// torch's object for an undefined tensor, if the layout reads all tensors as reported.
std::optional<std::uint64_t> validate(const TensorLayout& layout,
                                      std::span<const ExpectedTensor> tensors) {
  std::optional<std::uint64_t> no_gradient;
  bool has_gradient = false;
  for (const ExpectedTensor& expected : tensors) {
    const auto tensor = word_if_any(expected.object + layout.tensor_in_object);
    if (!tensor || storage_if_any(*tensor, layout) != expected.storage) return std::nullopt;
    const auto gradient = gradient_if_any(*tensor, layout);
    if (!gradient) return std::nullopt;
    if (expected.gradient_storage != 0) {
      has_gradient = true;
      if (storage_if_any(*gradient, layout) != expected.gradient_storage) return std::nullopt;
    } else if (no_gradient && no_gradient != gradient) {
      return std::nullopt;
    } else {
      // It has no storage.
      if (word_if_any(*gradient + layout.storage_in_tensor) != 0U) return std::nullopt;
      no_gradient = gradient;
    }
  }
  return has_gradient ? no_gradient : std::nullopt;
}

std::uint64_t tensor_of(std::uintptr_t object) {
  const std::uint64_t tensor = word_at(object + g_tensor_layout.tensor_in_object);
  const bool has_flag = g_tensor_layout.tensor_in_object == kBehindFlag;
  return has_flag && read_raw<std::uint8_t>(object + kBehindHead) != 0 ? word_at(tensor) : tensor;
}

void fetch(std::uint64_t address) { __builtin_prefetch(pointer_at<const void>(address)); }

}  // namespace

Status validate_tensors(std::span<const ExpectedTensor> tensors) {
  if (g_is_tensor_layout_valid.load(std::memory_order_acquire)) return Done{};
  for (const std::size_t in_object : kTensorInObject)
    for (const std::size_t behind_counts : kBehindCounts)
      for (const std::size_t in_meta : kGradientInMeta) {
        const TensorLayout layout = {in_object, behind_counts, behind_counts, in_meta};
        if (const auto no_gradient = validate(layout, tensors)) {
          g_tensor_layout = layout;
          g_no_gradient = *no_gradient;
          g_is_tensor_layout_valid.store(true, std::memory_order_release);
          return Done{};
        }
      }
  return Error{ErrorCode::environment, "the memory layout of torch's tensors is unknown", "", ""};
}

// Each tensor is a chain of objects that the program has not touched for a while: all chains are
// followed one object at a time, in step, so that the processor waits for many at once.
void TensorPlaces::follow(std::span<const std::uintptr_t> tensors) {
  chains_.resize(tensors.size());
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    chains_[index].tensor = tensor_of(tensors[index]);
    fetch(chains_[index].tensor + g_tensor_layout.storage_in_tensor);
  }
  for (Chain& chain : chains_) {
    chain.storage = word_at(chain.tensor + g_tensor_layout.storage_in_tensor);
    chain.meta = word_at(chain.tensor + g_tensor_layout.storage_in_tensor + kMetaBehindStorage);
    fetch(chain.storage + g_tensor_layout.address_in_storage);
    fetch(chain.meta + g_tensor_layout.gradient_in_meta);
  }
  for (Chain& chain : chains_) {
    chain.gradient = chain.meta == 0 ? 0 : word_at(chain.meta + g_tensor_layout.gradient_in_meta);
    if (chain.gradient == g_no_gradient) chain.gradient = 0;
    fetch(chain.gradient + g_tensor_layout.storage_in_tensor);
  }
  for (Chain& chain : chains_) {
    chain.gradient_storage =
        chain.gradient == 0 ? 0 : word_at(chain.gradient + g_tensor_layout.storage_in_tensor);
    fetch(chain.gradient_storage + g_tensor_layout.address_in_storage);
  }
}

TensorPlaces::Change TensorPlaces::read(std::span<const std::uintptr_t> tensors) {
  if (!g_is_tensor_layout_valid.load(std::memory_order_acquire)) return Change::other;
  follow(tensors);
  std::swap(places_, before_);
  places_.clear();
  bool is_same = is_known_ && before_.size() == tensors.size();
  bool is_moved = false;
  bool is_plain = true;
  const auto address_in = [](std::uint64_t storage) {
    return storage == 0 ? 0 : word_at(storage + g_tensor_layout.address_in_storage);
  };
  for (const Chain& chain : chains_) {
    const Place place = {address_in(chain.storage), address_in(chain.gradient_storage)};
    is_plain = is_plain && (chain.gradient == 0 || place.gradient != 0);
    if (is_same) {
      const Place& before = before_[places_.size()];
      is_same = place.storage == before.storage && (place.gradient == 0) == (before.gradient == 0);
      is_moved = is_moved || place.gradient != before.gradient;
    }
    places_.push_back(place);
  }
  is_known_ = is_plain;
  if (!is_same || !is_plain) return Change::other;
  return is_moved ? Change::gradients_moved : Change::none;
}

void TensorPlaces::forget() { is_known_ = false; }

std::size_t TensorPlaces::gradient_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(places_, [](const Place& place) { return place.gradient != 0; }));
}

std::vector<std::uint64_t> TensorPlaces::gradients() const {
  std::vector<std::uint64_t> found;
  found.reserve(places_.size());
  for (const Place& place : places_)
    if (place.gradient != 0) found.push_back(place.gradient);
  return found;
}

}  // namespace gpumemprof::capture
