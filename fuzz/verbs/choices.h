// Choices: what a fuzzer's input decides. Its bytes are used up first, so that a coverage-guided
// fuzzer steers with them; after them come numbers that depend on the whole input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpumemprof::fuzz {

class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> input) : input_(input) {
    for (const std::uint8_t byte : input) state_ = (state_ ^ byte) * 0x100000001b3U;
  }

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int byte = 0; byte < 8; ++byte) value = value << 8 | next();
    return value;
  }
  // A limit of 0 gives 0.
  std::size_t below(std::size_t limit) {
    if (limit < 2) return 0;
    std::size_t value = next();
    if (limit > 256) value = value << 8 | next();
    if (limit > 65536) value = value << 16 | static_cast<std::size_t>(next()) << 8 | next();
    return value % limit;
  }
  bool one_in(std::size_t chances) { return below(chances) == 0; }

 private:
  std::uint8_t next() {
    if (at_ < input_.size()) return input_[at_++];
    // splitmix64
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
    return static_cast<std::uint8_t>(mixed >> 56);
  }

  std::span<const std::uint8_t> input_;
  std::size_t at_ = 0;
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

// Numbers at which code that counts bytes, events or time goes wrong, and ones near `near`.
inline std::uint64_t odd_number(Choices& choices, std::uint64_t near) {
  constexpr std::uint64_t kEdges[] = {0,
                                      1,
                                      2,
                                      511,
                                      512,
                                      513,
                                      std::uint64_t{1} << 20,
                                      (std::uint64_t{1} << 20) + 1,
                                      std::uint64_t{1} << 31,
                                      0xffffffffU,
                                      std::uint64_t{1} << 32,
                                      std::uint64_t{1} << 47,
                                      std::uint64_t{1} << 62,
                                      0x7fffffffffffffffU,
                                      0x8000000000000000U,
                                      0xfffffffffffffe00U,
                                      0xffffffffffffffffU};
  switch (choices.below(6)) {
    case 0:
      return near + 512;
    case 1:
      return near - 512;
    case 2:
      return near * 2;
    case 3:
      return near / 2;
    case 4:
      return choices.number() >> choices.below(64);
    default:
      return kEdges[choices.below(std::size(kEdges))];
  }
}

}  // namespace gpumemprof::fuzz
