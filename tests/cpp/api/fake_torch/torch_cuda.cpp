// Stands in for libtorch_cuda.so: the sister class that shows where trackers are attached, and
// torch's snapshot, pickled with the opcodes that torch uses.
#include <cstring>

#include "allocator.h"

#pragma GCC visibility push(default)
// NOLINTBEGIN(readability-identifier-naming)
namespace torch::cuda {
namespace CUDAPluggableAllocator {

struct CUDAPluggableAllocator : fake::DeviceAllocator {
  void attachAllocatorTraceTracker(fake::Track track) override;
};
void CUDAPluggableAllocator::attachAllocatorTraceTracker(fake::Track /*track*/) {}

}  // namespace CUDAPluggableAllocator

namespace {

class Pickler {
 public:
  std::string bytes = "\x80\x02";

  void text(const std::string& value) {
    bytes += 'X';
    number32(static_cast<std::uint32_t>(value.size()));
    bytes += value;
    remember();
  }
  void number(std::uint64_t value) {
    bytes += "\x8a\x08";
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void truth(bool value) { bytes += value ? '\x88' : '\x89'; }
  void begin(char opcode) {
    bytes += opcode;
    remember();
    bytes += '(';
  }
  void end_dict() { bytes += 'u'; }
  void end_list() { bytes += 'e'; }
  void item(const std::string& key, std::uint64_t value) {
    text(key);
    number(value);
  }
  void item(const std::string& key, const std::string& value) {
    text(key);
    text(value);
  }
  void item(const std::string& key, const char* value) { item(key, std::string(value)); }

 private:
  void number32(std::uint32_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void remember() {
    bytes += 'r';
    number32(next_++);
  }
  std::uint32_t next_ = 0;
};

void add_segment(Pickler& pickler, std::uint64_t address, const fake::Block& block) {
  pickler.begin('}');
  pickler.item("device", std::uint64_t{0});
  pickler.item("address", address);
  pickler.item("total_size", block.size_bytes);
  pickler.item("allocated_size", block.size_bytes);
  pickler.item("active_size", block.size_bytes);
  pickler.item("requested_size", block.requested_bytes);
  pickler.item("stream", std::uint64_t{0});
  pickler.item("segment_type", "large");
  pickler.text("segment_pool_id");
  pickler.number(0);
  pickler.number(0);
  pickler.bytes += '\x86';
  pickler.text("is_expandable");
  pickler.truth(false);
  pickler.text("blocks");
  pickler.begin(']');
  pickler.begin('}');
  pickler.item("address", address);
  pickler.item("size", block.size_bytes);
  pickler.item("requested_size", block.requested_bytes);
  pickler.item("state", "active_allocated");
  pickler.end_dict();
  pickler.end_list();
  pickler.end_dict();
}

}  // namespace

std::string _memory_snapshot_pickled() {
  fake::NativeAllocator& all = fake::native();
  const std::lock_guard lock(all.mutex);
  std::map<std::uint64_t, fake::Block> blocks = all.blocks;
  if (all.is_initialised) all.tell(7, 0, all.allocated_bytes);
  if (all.is_lying) {
    // The same sum, elsewhere.
    std::map<std::uint64_t, fake::Block> moved;
    for (const auto& [address, block] : blocks) moved[address + (std::uint64_t{1} << 40U)] = block;
    blocks = moved;
  }
  Pickler pickler;
  pickler.begin('}');
  pickler.text("segments");
  pickler.begin(']');
  for (const auto& [address, block] : blocks) add_segment(pickler, address, block);
  pickler.end_list();
  pickler.text("device_traces");
  pickler.begin(']');
  pickler.end_list();
  pickler.text("allocator_settings");
  pickler.begin('}');
  pickler.item("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64");
  pickler.end_dict();
  pickler.end_dict();
  pickler.bytes += '.';
  return pickler.bytes;
}

}  // namespace torch::cuda
// NOLINTEND(readability-identifier-naming)
#pragma GCC visibility pop
