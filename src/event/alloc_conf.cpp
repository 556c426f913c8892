#include "event/alloc_conf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace gpumemprof {
namespace {

enum class ValueKind { megabytes, boolean, fraction, power_of_two, count, backend, roundup };

struct Key {
  std::string_view name;
  ValueKind kind;
  TorchVersion since;
};

// release_lock_on_hipmalloc and pinned_use_hip_host_register are the ROCm spellings, which every
// build accepts.
constexpr std::array kKeys = {
    Key{"backend", ValueKind::backend, {2, 0}},
    Key{"max_split_size_mb", ValueKind::megabytes, {2, 0}},
    Key{"garbage_collection_threshold", ValueKind::fraction, {2, 0}},
    Key{"roundup_power2_divisions", ValueKind::roundup, {2, 0}},
    Key{"expandable_segments", ValueKind::boolean, {2, 0}},
    Key{"release_lock_on_cudamalloc", ValueKind::boolean, {2, 2}},
    Key{"release_lock_on_hipmalloc", ValueKind::boolean, {2, 2}},
    Key{"pinned_use_cuda_host_register", ValueKind::boolean, {2, 2}},
    Key{"pinned_use_hip_host_register", ValueKind::boolean, {2, 2}},
    Key{"pinned_num_register_threads", ValueKind::power_of_two, {2, 2}},
    Key{"max_non_split_rounding_mb", ValueKind::megabytes, {2, 6}},
    Key{"pinned_use_background_threads", ValueKind::boolean, {2, 6}},
    Key{"graph_capture_record_stream_reuse", ValueKind::boolean, {2, 9}},
    Key{"per_process_memory_fraction", ValueKind::fraction, {2, 10}},
    Key{"pinned_reserve_segment_size_mb", ValueKind::count, {2, 10}},
    Key{"large_segment_size_mb", ValueKind::megabytes, {2, 11}},
    Key{"throw_on_cudamalloc_oom", ValueKind::boolean, {2, 12}},
    Key{"pinned_free_catch_all", ValueKind::boolean, {2, 12}},
    Key{"pinned_max_round_threshold_mb", ValueKind::count, {2, 13}},
    Key{"pinned_max_cached_size_mb", ValueKind::count, {2, 13}},
};

constexpr std::uint64_t kMaxMegabytes = std::numeric_limits<std::uint64_t>::max() / kMiB;

Error bad_value(std::string_view key, std::string_view value, std::string_view expected) {
  return Error{
      ErrorCode::usage,
      "the allocator setting " + std::string(key) + " cannot be '" + std::string(value) + "'", "",
      "give " + std::string(expected)};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t column = 0; column <= b.size(); ++column) row[column] = column;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

Error unknown_key(std::string_view name, TorchVersion version) {
  std::string valid;
  std::string_view closest;
  std::size_t best = std::max<std::size_t>(3, name.size() / 3) + 1;
  TorchVersion since{0, 0};
  for (const Key& key : kKeys) {
    if (key.name == name) since = key.since;
    if (key.since > version) continue;
    valid += (valid.empty() ? "" : ", ") + std::string(key.name);
    const std::size_t distance = edit_distance(name, key.name);
    if (distance < best || (key.name.starts_with(name) && name.size() > 3 && closest.empty())) {
      best = std::min(best, distance);
      closest = key.name;
    }
  }
  std::string message =
      "torch " + to_string(version) + " has no allocator setting '" + std::string(name) + "'";
  if (since.major > 0) message += " (it came with torch " + to_string(since) + ")";
  if (since.major == 0 && !closest.empty())
    message += "; did you mean " + std::string(closest) + "?";
  return Error{ErrorCode::usage, std::move(message), "", "the settings it knows are " + valid};
}

bool parse_count(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_number(std::string_view text, double& value) {
  const std::string copy(
      text);  // from_chars for double needs g++ 11 and no leading '+': strtod is torch's own rule
  char* end = nullptr;
  value = std::strtod(copy.c_str(), &end);
  return !copy.empty() && *end == '\0' && std::isfinite(value);
}

// One key and its value; torch drops blanks and treats ',' ':' '[' ']' as special.
struct Item {
  std::string key;
  std::string value;
};

Error shape_error(std::string_view what) {
  return Error{
      ErrorCode::usage, "the allocator settings string " + std::string(what), "",
      "write it as key:value,key:value, e.g. expandable_segments:True,max_split_size_mb:128"};
}

Result<std::vector<Item>> split_items(std::string_view text) {
  std::vector<Item> items;
  std::string piece;
  int depth = 0;
  const auto end_item = [&]() {
    const std::size_t colon = piece.find(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == piece.size()) return false;
    items.push_back({piece.substr(0, colon), piece.substr(colon + 1)});
    piece.clear();
    return true;
  };
  for (const char c : text) {
    if (c == ' ') continue;
    if (c == '[' && ++depth > 1) return shape_error("opens '[' twice");
    if (c == ']' && --depth < 0) return shape_error("closes ']' that was never opened");
    if (c != ',' || depth > 0) {
      piece += c;
    } else if (!end_item()) {
      return shape_error("has the item '" + piece + "', which is not key:value");
    }
  }
  if (depth != 0) return shape_error("opens '[' and never closes it");
  // A trailing comma is harmless in torch.
  if (!piece.empty() && !end_item())
    return shape_error("has the item '" + piece + "', which is not key:value");
  return items;
}

class Parser {
 public:
  explicit Parser(TorchVersion version) : version_(version) {}

  Result<AllocConf> parse(std::string_view text) {
    Result<std::vector<Item>> items = split_items(text);
    if (!items) return items.error();
    for (const Item& item : items.value()) {
      const auto key = std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& known) {
        return known.name == item.key && known.since <= version_;
      });
      if (key == kKeys.end()) return unknown_key(item.key, version_);
      if (std::optional<Error> error = apply(*key, item.value)) return *error;
    }
    conf_.settings.settle();
    return std::move(conf_);
  }

 private:
  using MaybeError = std::optional<Error>;

  MaybeError apply(const Key& key, const std::string& value) {
    switch (key.kind) {
      case ValueKind::megabytes:
        return apply_megabytes(key.name, value);
      case ValueKind::boolean:
        return apply_boolean(key.name, value);
      case ValueKind::fraction:
        return apply_fraction(key.name, value);
      case ValueKind::roundup:
        return value.starts_with('[') ? apply_roundup_list(value) : apply_roundup(value);
      case ValueKind::backend:
        return apply_backend(value);
      case ValueKind::power_of_two:
      case ValueKind::count:
        break;
    }
    std::uint64_t count = 0;
    if (!parse_count(value, count) || count == 0)
      return bad_value(key.name, value, "a whole number above 0");
    if (key.kind == ValueKind::power_of_two && (!std::has_single_bit(count) || count > 128)) {
      return bad_value(key.name, value, "a power of two up to 128");
    }
    keep(key.name, value);
    return {};
  }

  MaybeError apply_megabytes(std::string_view key, const std::string& value) {
    std::uint64_t megabytes = 0;
    // max_split_size_mb had to be above 20 until torch 2.9, and may be 20 since 2.10; the two
    // others as listed.
    const bool is_large_segment = key == "large_segment_size_mb";
    const bool may_equal = !is_large_segment && version_ >= TorchVersion{2, 10};
    const std::uint64_t least = (is_large_segment ? 10U : 20U) + (may_equal ? 0U : 1U);
    if (!parse_count(value, megabytes) || megabytes < least) {
      return bad_value(key, value, "a whole number of MiB, at least " + std::to_string(least));
    }
    const std::uint64_t bytes = std::min(megabytes, kMaxMegabytes) * kMiB;
    if (is_large_segment) {
      conf_.settings.large_segment_bytes = bytes;
    } else if (key == "max_split_size_mb") {
      conf_.settings.max_split_bytes = bytes;
    } else {
      conf_.settings.max_non_split_rounding_bytes = bytes;
    }
    return {};
  }

  MaybeError apply_boolean(std::string_view key, const std::string& value) {
    if (value != "True" && value != "False")
      return bad_value(key, value, "True or False, spelled like this");
    const bool on = value == "True";
    if (key == "expandable_segments") {
      conf_.settings.expandable_segments = on;
    } else if (key == "throw_on_cudamalloc_oom") {
      conf_.settings.throw_on_device_oom = on;
    } else {
      keep(key, value);
    }
    return {};
  }

  MaybeError apply_fraction(std::string_view key, const std::string& value) {
    double fraction = 0;
    const bool is_number = parse_number(value, fraction);
    if (key == "per_process_memory_fraction") {
      if (!is_number || fraction < 0 || fraction > 1)
        return bad_value(key, value, "a number from 0 to 1");
      conf_.memory_fraction = fraction;
    } else {
      if (!is_number || fraction <= 0 || fraction >= 1) {
        return bad_value(key, value, "a number between 0 and 1 (both excluded)");
      }
      conf_.settings.garbage_collection_threshold = fraction;
    }
    return {};
  }

  MaybeError apply_backend(const std::string& value) {
    if (value != "native" && value != "cudaMallocAsync") {
      return bad_value("backend", value, "native or cudaMallocAsync");
    }
    conf_.is_native_backend = value == "native";
    return {};
  }

  MaybeError apply_roundup(const std::string& value) {
    std::uint64_t divisions = 0;
    if (!parse_count(value, divisions) || !std::has_single_bit(divisions)) {
      return bad_value("roundup_power2_divisions", value,
                       "a power of two, or a list such as [256:1,512:2,>:4]");
    }
    conf_.settings.roundup_divisions.fill(divisions);
    return {};
  }

  MaybeError apply_roundup_list(const std::string& value) {
    auto& slots = conf_.settings.roundup_divisions;
    slots.fill(0);
    std::string_view rest(value);
    if (!rest.ends_with(']')) return bad_list(value);
    rest = rest.substr(1, rest.size() - 2);
    std::size_t last_slot = 0;
    bool is_first = true;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view entry = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      const std::size_t colon = entry.find(':');
      std::uint64_t divisions = 0;
      if (colon == std::string_view::npos || !parse_count(entry.substr(colon + 1), divisions) ||
          (divisions != 0 && !std::has_single_bit(divisions))) {
        return bad_list(value);
      }
      const std::string_view size = entry.substr(0, colon);
      if (size == ">") {
        // Until torch 2.9 '>' also overwrote the last slot that was named.
        const std::size_t first = last_slot + (version_ >= TorchVersion{2, 10} ? 1 : 0);
        for (std::size_t slot = first; slot < slots.size(); ++slot) slots[slot] = divisions;
        continue;
      }
      std::uint64_t megabytes = 0;
      if (!parse_count(size, megabytes) || !std::has_single_bit(megabytes)) return bad_list(value);
      const auto log2 = static_cast<std::size_t>(std::bit_width(megabytes) - 1);
      last_slot = std::min(log2, slots.size() - 1);
      // The first entry also stands for everything below it.
      for (std::size_t slot = is_first ? 0 : last_slot; slot <= last_slot; ++slot)
        slots[slot] = divisions;
      is_first = false;
    }
    return {};
  }

  static Error bad_list(std::string_view value) {
    return bad_value(
        "roundup_power2_divisions", value,
        "pairs of a size in MiB and divisions, both powers of two, such as [256:1,512:2,>:4]");
  }

  void keep(std::string_view key, const std::string& value) {
    conf_.other.emplace_back(key, value);
  }

  TorchVersion version_;
  AllocConf conf_;
};

}  // namespace

Result<TorchVersion> parse_torch_version(std::string_view text) {
  const std::size_t dot = text.find('.');
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  bool is_version = dot != std::string_view::npos && parse_count(text.substr(0, dot), major);
  if (is_version) {
    const std::string_view rest = text.substr(dot + 1);
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const bool ends_well = digits == rest.size() || rest[digits] == '.' || rest[digits] == '+';
    is_version = ends_well && parse_count(rest.substr(0, digits), minor);
  }
  if (!is_version || major > 99 || minor > 999) {
    return Error{ErrorCode::usage, "'" + std::string(text) + "' is not a torch version", "",
                 "write it as 2.11 or 2.11.0+cu130"};
  }
  const TorchVersion version{static_cast<int>(major), static_cast<int>(minor)};
  if (version < kOldestTorch || version > kNewestTorch) {
    return Error{ErrorCode::usage,
                 "the allocator of torch " + to_string(version) + " is not supported", "",
                 "versions " + to_string(kOldestTorch) + " to " + to_string(kNewestTorch) + " are"};
  }
  return version;
}

std::string to_string(TorchVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

Result<AllocConf> parse_alloc_conf(std::string_view text, TorchVersion version) {
  return Parser(version).parse(text);
}

void apply_sizes_of_conf(std::string_view text, AllocatorSettings& settings) {
  const Result<std::vector<Item>> items = split_items(text);
  if (!items) return;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;  // MiB; a forged file may state any value
  for (const Item& item : items.value()) {
    std::uint64_t megabytes = 0;
    if (!parse_count(item.value, megabytes) || megabytes == 0) continue;
    const std::uint64_t bytes = std::min(megabytes, kMost) * kMiB;
    if (item.key == "large_segment_size_mb") settings.large_segment_bytes = bytes;
    if (item.key == "max_non_split_rounding_mb") settings.max_non_split_rounding_bytes = bytes;
  }
}

}  // namespace gpumemprof
