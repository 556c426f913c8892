// NativeModule: a program or library whose code native frames belong to.
//
// In a recording, a native frame is a frame whose file is the module's key and whose name is the
// return address in that module, "0x1a2b", with no line. What it is called in the source is found
// out when the recording is read.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpumemprof {

struct NativeModule {
  std::string key;       // its path, unless another module of the recording has that
  std::string path;      // where it was when it was recorded
  std::string build_id;  // hexadecimal; empty: it has none
  bool operator==(const NativeModule&) const = default;
};

// "0x1a2b": an address as the module itself counts it, before it is loaded anywhere.
inline std::string native_address_text(std::uint64_t address) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), address, 16).ptr;
  return "0x" + std::string(digits, end);
}
inline std::optional<std::uint64_t> native_address(std::string_view text) {
  if (!text.starts_with("0x")) return std::nullopt;
  text.remove_prefix(2);
  std::uint64_t address = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), address, 16);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return address;
}

// Of the system, of torch or of what torch brings along, or Python itself: not the user's own code.
bool is_library_module(std::string_view path);

// The fact of a recording that says what native frames could not be looked up, and how to get it: a
// sentence on each line.
inline constexpr std::string_view kNativeSymbolsFact = "native_symbols";

}  // namespace gpumemprof
