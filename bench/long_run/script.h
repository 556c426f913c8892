// Script: what one pass of a training program asks of the allocator, compiled once and run at every
// step.
//
// A tensor is named by its slot: an index that is free again once the tensor is, so that a run of
// any length needs as many slots as it has tensors alive at once. Sizes are in bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "event/event.h"

namespace gpumemprof::long_run {

enum class Stream : std::uint8_t { compute, copy };

// The code that makes a request.
struct Place {
  StackId stack;  // none: autograd's own thread, which has no Python
  StackId forward_stack;
  std::uint32_t module = kNoModule;
  Stream stream = Stream::compute;
};

// What a tensor takes, as a function of the number of tokens in the batch.
struct Size {
  std::uint64_t fixed_bytes = 0;
  std::uint64_t bytes_per_token = 0;

  [[nodiscard]] std::uint64_t bytes(std::uint64_t tokens) const {
    return fixed_bytes + bytes_per_token * tokens;
  }
};

constexpr Size fixed(std::uint64_t bytes) { return {bytes, 0}; }
constexpr Size per_token(std::uint64_t bytes) { return {0, bytes}; }

using Slot = std::uint32_t;

class Slots {
 public:
  Slot take() { return next_++; }
  // So many in a row; returns the first.
  Slot take(std::size_t count) {
    const Slot first = next_;
    next_ += static_cast<Slot>(count);
    return first;
  }

 private:
  Slot next_ = 0;
};

struct Instruction {
  enum class Kind : std::uint8_t { allocate, free };
  Kind kind = Kind::allocate;
  Slot slot = 0;
  Size size;  // of allocate
  Place place;
};

class Script {
 public:
  void allocate(Slot slot, Size size, const Place& place) {
    instructions_.push_back({Instruction::Kind::allocate, slot, size, place});
  }
  void free(Slot slot, StackId stack) {
    instructions_.push_back({Instruction::Kind::free, slot, {}, {stack, {}, kNoModule}});
  }

  [[nodiscard]] std::span<const Instruction> instructions() const { return instructions_; }

 private:
  std::vector<Instruction> instructions_;
};

}  // namespace gpumemprof::long_run
