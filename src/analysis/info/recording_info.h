// RecordingInfo: what a recording is and what it contains, without any analysis of its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/completeness/completeness.h"
#include "store/store.h"

namespace gpumemprof {

struct FileInfo {
  std::string path;
  std::optional<std::uint64_t> size_bytes;      // on disk; unknown for a pipe
  std::optional<std::uint16_t> format_version;  // of a .gmp file
};

struct DeviceInfo {
  std::string device;               // "cuda:0"
  std::string kind;                 // "cuda", "cpu"
  std::optional<std::string> name;  // "NVIDIA H200"
  std::optional<std::uint64_t> total_bytes;
  std::uint64_t events = 0;
};

struct RecordingInfo {
  FileInfo file;
  std::string kind;  // as Origin::kind
  std::optional<CutPoint> cut;
  Completeness completeness;
  std::vector<DeviceInfo> devices;
  std::optional<std::string> gpumemprof_version;
  std::optional<std::string> torch_version;
  std::optional<std::string> python_version;
  std::optional<std::string> host;
  std::optional<std::string> process_id;
  std::optional<std::string> rank;
  std::optional<std::string> command;
  std::optional<std::string> capture_mode;
  bool has_history = false;
  bool has_stacks = false;
  bool has_forward_stacks = false;  // memory allocated in backward has the stack of its forward
  bool has_modules = false;
  bool has_labels = false;
  bool has_card_samples = false;
};

RecordingInfo find_info(const Store& store, const FileInfo& file);
// The same if the store does not hold the events.
struct CountedDevice {
  DeviceExtent extent;
  std::uint64_t events = 0;
};
RecordingInfo find_info(const Store& store, const FileInfo& file,
                        const std::vector<CountedDevice>& devices);

}  // namespace gpumemprof
