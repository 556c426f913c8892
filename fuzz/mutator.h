// Mutator: random changes to seeds, most of which a pickle reader still accepts as a pickle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace gpumemprof::fuzz {

using Bytes = std::vector<std::uint8_t>;

class Mutator {
 public:
  Mutator(const std::vector<Bytes>& seeds, std::uint64_t seed) : seeds_(seeds), random_(seed) {}

  Bytes next() {
    // Some results are kept, so that changes accumulate.
    Bytes input =
        !kept_.empty() && below(3) == 0 ? kept_[below(kept_.size())] : seeds_[below(seeds_.size())];
    for (std::size_t changes = std::size_t{1} << below(6); changes > 0; --changes) change(input);
    if (input.size() > kLargest) input.resize(kLargest);
    if (below(8) == 0) keep(input);
    return input;
  }

 private:
  static constexpr std::size_t kLargest = std::size_t{256} << 10;
  static constexpr std::size_t kMostKept = 256;

  std::size_t below(std::size_t limit) {
    return static_cast<std::size_t>(random_() % std::max<std::size_t>(limit, 1));
  }
  std::uint8_t any_byte() { return static_cast<std::uint8_t>(random_()); }

  void keep(const Bytes& input) {
    if (kept_.size() < kMostKept) {
      kept_.push_back(input);
    } else {
      kept_[below(kMostKept)] = input;
    }
  }

  void change(Bytes& input) {
    switch (below(11)) {
      case 0:
        if (!input.empty()) input[below(input.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 1:
        if (!input.empty()) input[below(input.size())] = any_byte();
        break;
      case 2:
        if (!input.empty()) input[below(input.size())] = opcode();
        break;
      case 3:
        input.insert(place(input), opcode());
        break;
      case 4:
        erase(input);
        break;
      case 5:
        if (below(4) == 0) input.resize(below(input.size()));
        break;
      case 6:
        duplicate(input);
        break;
      case 7:
        splice(input);
        break;
      case 8:
        tweak_operand(input);
        break;
      case 9:
        swap_ranges(input);
        break;
      default:
        insert_phrase(input);
    }
  }

  Bytes::iterator place(Bytes& input) {
    return input.begin() + static_cast<std::ptrdiff_t>(below(input.size() + 1));
  }

  std::uint8_t opcode() {
    constexpr std::string_view kOpcodes =
        "(.012FIJKLMNSTUVXaedgGhijlopqrstu]})"
        "bcPQR\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92"
        "\x93\x94\x95\x96\x97\x98"
        "BC";
    return static_cast<std::uint8_t>(kOpcodes[below(kOpcodes.size())]);
  }

  // [first, last) of at most 64 bytes, occasionally of any length.
  std::pair<std::size_t, std::size_t> range(const Bytes& input) {
    const std::size_t first = below(input.size());
    const std::size_t most = below(16) == 0 ? input.size() : 64;
    return {first, std::min(input.size(), first + below(most + 1))};
  }

  void erase(Bytes& input) {
    const auto [first, last] = range(input);
    input.erase(input.begin() + static_cast<std::ptrdiff_t>(first),
                input.begin() + static_cast<std::ptrdiff_t>(last));
  }

  void duplicate(Bytes& input) {
    const auto [first, last] = range(input);
    const Bytes copy(input.begin() + static_cast<std::ptrdiff_t>(first),
                     input.begin() + static_cast<std::ptrdiff_t>(last));
    for (std::size_t times = below(32) == 0 ? 200 : 1; times > 0; --times) {
      input.insert(place(input), copy.begin(), copy.end());
      if (input.size() > kLargest) break;
    }
  }

  void splice(Bytes& input) {
    const Bytes& other = seeds_[below(seeds_.size())];
    const auto [first, last] = range(other);
    input.insert(place(input), other.begin() + static_cast<std::ptrdiff_t>(first),
                 other.begin() + static_cast<std::ptrdiff_t>(last));
  }

  void swap_ranges(Bytes& input) {
    if (input.size() < 4) return;
    const std::size_t length = below(std::min<std::size_t>(input.size() / 2, 64)) + 1;
    const std::size_t first = below(input.size() / 2 - length + 1);
    const std::size_t second = input.size() / 2 + below(input.size() / 2 - length + 1);
    std::swap_ranges(input.begin() + static_cast<std::ptrdiff_t>(first),
                     input.begin() + static_cast<std::ptrdiff_t>(first + length),
                     input.begin() + static_cast<std::ptrdiff_t>(second));
  }

  // The bytes after an opcode with an operand become an edge of its range, or one more or less.
  void tweak_operand(Bytes& input) {
    constexpr std::string_view kWithOperand = "hjqrKMJXTUBC\x8a\x8b\x8c\x8d\x8e\x95\x96";
    for (int attempts = 0; attempts < 64 && input.size() > 10; ++attempts) {
      const std::size_t at = below(input.size() - 9);
      if (kWithOperand.find(static_cast<char>(input[at])) == std::string_view::npos) continue;
      constexpr std::uint64_t kEdges[] = {0,
                                          1,
                                          127,
                                          128,
                                          255,
                                          256,
                                          65535,
                                          65536,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x0de0b6b3a7640000,
                                          0x7fffffffffffffff,
                                          0xffffffffffffffff};
      std::uint64_t value = kEdges[below(std::size(kEdges))];
      if (below(2) == 0) value = input[at + 1] + (below(2) == 0 ? 1 : ~std::uint64_t{0});
      const std::size_t bytes = std::size_t{1} << below(4);
      for (std::size_t index = 0; index < bytes; ++index)
        input[at + 1 + index] = static_cast<std::uint8_t>(value >> (8 * index));
      return;
    }
  }

  // Words and shapes that random bytes hardly ever produce.
  void insert_phrase(Bytes& input) {
    constexpr std::string_view kWords[] = {"action",           "alloc",         "free_requested",
                                           "free_completed",   "segment_alloc", "segment_free",
                                           "segment_map",      "segment_unmap", "oom",
                                           "segments",         "device_traces", "host_segments",
                                           "host_traces",      "blocks",        "total_size",
                                           "address",          "size",          "state",
                                           "active_allocated", "is_expandable", "frames",
                                           "history",          "name",          "filename"};
    constexpr std::string_view kShapes[] = {"}\x94(",
                                            "]\x94(",
                                            "e",
                                            "u",
                                            "a",
                                            "s",
                                            "}",
                                            "]",
                                            "(l",
                                            "(d",
                                            "(t",
                                            "\x86\x94",
                                            "N",
                                            "K\x01",
                                            "Vx\n",
                                            "I1\n",
                                            "L5L\n",
                                            "cos\nx\n",
                                            "\x8a\x06\x01\x02\x03\x04\x05\x06",
                                            "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
                                            "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x01"};
    if (below(2) == 0) {
      const std::string_view shape = kShapes[below(std::size(kShapes))];
      input.insert(place(input), shape.begin(), shape.end());
      return;
    }
    const std::string_view word = kWords[below(std::size(kWords))];
    Bytes text = {0x8c, static_cast<std::uint8_t>(word.size())};
    text.insert(text.end(), word.begin(), word.end());
    text.push_back(0x94);
    input.insert(place(input), text.begin(), text.end());
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937_64 random_;
  std::vector<Bytes> kept_;
};

}  // namespace gpumemprof::fuzz
