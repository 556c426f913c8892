#include "api/recorder/listed_state.h"

#include <span>

#include "base/interner.h"
#include "event/sinks/silent_sink.h"
#include "ingest/torch_snapshot.h"

namespace gpumemprof::api {
namespace {

// Keeps the segments and the settings; a history, if the program records one, is left out.
class StateSink final : public SilentSink {
 public:
  StringId add_string(std::string_view text) override { return texts_.intern(text); }
  [[nodiscard]] std::string_view text(StringId id) const override { return texts_.text(id); }
  std::uint32_t add_stream(std::uint64_t handle) override {
    streams_.push_back(handle);
    return static_cast<std::uint32_t>(streams_.size() - 1);
  }
  std::uint32_t add_pool(PoolId pool) override {
    pools_.push_back(pool);
    return static_cast<std::uint32_t>(pools_.size() - 1);
  }
  void add_segment(StateEdge /*edge*/, const SegmentState& segment,
                   std::span<const BlockState> blocks) override {
    capture::ListedSegment listed;
    listed.device = segment.device;
    listed.address = segment.address;
    listed.size_bytes = segment.size_bytes;
    if (segment.stream < streams_.size()) listed.stream = streams_[segment.stream];
    if (segment.pool < pools_.size()) listed.pool = pools_[segment.pool];
    listed.is_small = segment.is_small;
    listed.is_expandable = segment.is_expandable;
    for (const BlockState& block : blocks)
      listed.blocks.push_back(
          {block.address, block.size_bytes, block.requested_bytes, block.state});
    state.segments.push_back(std::move(listed));
  }
  void set_origin(const Origin& origin) override {
    for (const auto& [key, value] : origin.settings)
      if (key == "PYTORCH_CUDA_ALLOC_CONF") state.settings = value;
  }

  ListedState state;

 private:
  Interner texts_;
  std::vector<std::uint64_t> streams_;
  std::vector<PoolId> pools_;
};

}  // namespace

Result<ListedState> listed_state(const std::string& pickled) {
  StateSink sink;
  const auto snapshot =
      TorchSnapshot::from_bytes(std::as_bytes(std::span(pickled)), "torch's own snapshot");
  if (Status delivered = snapshot->deliver(sink); !delivered) return delivered.error();
  return std::move(sink.state);
}

}  // namespace gpumemprof::api
