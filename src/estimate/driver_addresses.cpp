#include "estimate/driver_addresses.h"

#include <algorithm>
#include <iterator>
#include <ranges>

namespace gpumemprof::estimate {
namespace {

constexpr std::uint64_t kTop = 0x7F00'0000'0000;
constexpr std::uint64_t kPage = 2 * kMiB;
constexpr std::uint64_t kChunk = 32 * kMiB;
// What the driver has taken before the program allocates anything: of its first chunk, of two
// below, and of a large one for the threads of kernels.
constexpr std::uint64_t kOwnBytes = 8 * kMiB;
constexpr std::uint64_t kOwnChunks = 64 * kMiB;
constexpr std::uint64_t kThreadsChunk = 416 * kMiB;
constexpr std::uint64_t kThreadsBytes = 414 * kMiB;
// What is left of that chunk if it goes back to the system.
constexpr std::uint64_t kThreadsLeft = 256 * kMiB;

constexpr std::uint64_t round_up(std::uint64_t size_bytes, std::uint64_t unit) {
  return (size_bytes + unit - 1) / unit * unit;
}

}  // namespace

std::uint64_t DriverAddresses::Chunk::find_gap(std::uint64_t wanted_bytes) const {
  std::uint64_t at = address;
  for (const auto& [start, bytes] : used) {
    if (start - at >= wanted_bytes) return at;
    at = start + bytes;
  }
  return end() - at >= wanted_bytes ? at : end();
}

void DriverAddresses::Chunk::use(std::uint64_t at, std::uint64_t bytes) {
  used.emplace(at, bytes);
  measure();
}

void DriverAddresses::Chunk::measure() {
  largest_gap_bytes = 0;
  std::uint64_t at = address;
  for (const auto& [start, bytes] : used) {
    largest_gap_bytes = std::max(largest_gap_bytes, start - at);
    at = start + bytes;
  }
  largest_gap_bytes = std::max(largest_gap_bytes, end() - at);
}

DriverAddresses::DriverAddresses() : lowest_(kTop), for_threads_(0) {
  Chunk& first = add_chunk(kChunk);
  first.use(first.address, kOwnBytes);
  lowest_ -= kOwnChunks;
  Chunk& threads = add_chunk(kThreadsChunk);
  threads.use(threads.address, kThreadsBytes);
  for_threads_ = threads.address;
}

void DriverAddresses::on_kernel() {
  if (has_kernel_run_) return;
  has_kernel_run_ = true;
  const auto chunk = std::ranges::find(chunks_, for_threads_, &Chunk::address);
  chunk->used.erase(for_threads_);
  chunk->measure();
  if (!chunk->used.empty()) return;
  const std::uint64_t end = chunk->end();
  chunks_.erase(chunk);
  return_space(end - kThreadsLeft, kThreadsLeft);
}

std::uint64_t DriverAddresses::place_segment(std::uint64_t size_bytes) {
  const std::uint64_t bytes = round_up(size_bytes, kPage);
  for (Chunk& chunk : std::views::reverse(chunks_)) {
    if (chunk.largest_gap_bytes < bytes) continue;
    const std::uint64_t at = chunk.find_gap(bytes);
    chunk.use(at, bytes);
    return at;
  }
  Chunk& chunk = add_chunk(round_up(bytes, kChunk));
  chunk.use(chunk.address, bytes);
  return chunk.address;
}

std::uint64_t DriverAddresses::place_range(std::uint64_t size_bytes) {
  lowest_ -= round_up(size_bytes, kChunk);
  return lowest_;
}

void DriverAddresses::return_segment(std::uint64_t address) {
  const auto chunk =
      std::ranges::find_if(chunks_, [&](const Chunk& each) { return each.used.contains(address); });
  if (chunk == chunks_.end()) return;
  chunk->used.erase(address);
  if (!chunk->used.empty()) {
    chunk->measure();
    return;
  }
  return_space(chunk->address, chunk->size_bytes);
  chunks_.erase(chunk);
}

DriverAddresses::Chunk& DriverAddresses::add_chunk(std::uint64_t size_bytes) {
  Chunk chunk;
  chunk.address = take_space(size_bytes);
  chunk.size_bytes = size_bytes;
  return chunks_.emplace_back(std::move(chunk));
}

// The driver asks for a chunk more than it needs, so that it can align it; so a gap of exactly the
// size does not serve.
std::uint64_t DriverAddresses::take_space(std::uint64_t size_bytes) {
  for (auto& [start, gap_bytes] : std::views::reverse(gaps_)) {
    if (gap_bytes < size_bytes + kChunk) continue;
    gap_bytes -= size_bytes;
    return start + gap_bytes;
  }
  lowest_ -= size_bytes;
  return lowest_;
}

void DriverAddresses::return_space(std::uint64_t address, std::uint64_t size_bytes) {
  const auto above = gaps_.find(address + size_bytes);
  if (above != gaps_.end()) {
    size_bytes += above->second;
    gaps_.erase(above);
  }
  auto below = gaps_.lower_bound(address);
  if (below != gaps_.begin()) {
    below = std::prev(below);
    if (below->first + below->second == address) {
      address = below->first;
      size_bytes += below->second;
      gaps_.erase(below);
    }
  }
  if (address == lowest_) {
    lowest_ += size_bytes;
  } else {
    gaps_.emplace(address, size_bytes);
  }
}

}  // namespace gpumemprof::estimate
