// Drain: the thread that empties the ring and writes the files. Holds no lock while it writes and
// never takes the GIL.
//
// Commands (start an output, mark, join, stop) run on this thread, each after the records that were
// in the ring when it was submitted and before those that came later. Lost events (losses.h) keep
// their place among both.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "capture/ledger/card.h"
#include "capture/stacks/forward_stacks.h"
#include "capture/stacks/stack_mirror.h"
#include "capture/stream/clock.h"
#include "capture/stream/emitter.h"
#include "capture/stream/output.h"
#include "capture/stream/ring.h"

namespace gpumemprof::capture {

class Drain {
 public:
  Drain(Ring& ring, Emitter& emitter) : ring_(ring), emitter_(emitter) {}
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
  ~Drain() { stop_thread(); }

  using Command = std::function<void(Drain&)>;
  // Any thread may call. If the thread is not running, commands wait for the next one.
  void submit(Command command);
  // The same, but does not wake the thread: for what happens at every step and can wait a little.
  void submit_deferred(Command command);
  // Fails if the system cannot create another thread.
  Status start_thread();
  void stop_thread();

  // For commands:
  void add_output(std::unique_ptr<Output> output) { outputs_.push_back(std::move(output)); }
  [[nodiscard]] Output* output(RecordingNumber number);
  std::unique_ptr<Output> take_output(RecordingNumber number);
  void begin_join(RecordingNumber number);
  void end_join() { joining_ = nullptr; }
  void begin_self_test(RecordingNumber number);
  void end_freezing() { freezing_ = nullptr; }
  void add_tag(std::string name) { tags_.push_back(std::move(name)); }
  void mark(const std::string& name, Annotation::Stage stage, std::uint64_t ticks);
  void watch_card(DeviceIndex device, const std::string& uuid);
  void sample_cards();
  void define_labels(LabelSetNumber set, std::vector<StorageLabel> labels);
  void move_labels(LabelSetNumber set, LabelSetNumber to,
                   const std::vector<std::uint64_t>& addresses);
  void apply_labels(LabelSetNumber set);
  void forget_labels(LabelSetNumber set);
  void mark_phase(PhaseMark::Kind kind, std::uint32_t number);
  void describe_modules(const std::vector<ModuleDescription>& modules);
  void forget_module(std::uint64_t address) { stack_mirror_.modules().forget(address); }
  void set_line_table_format(LineTableFormat format) {
    stack_mirror_.set_line_table_format(format);
  }
  void note_pause();
  // Events for which it is unknown whether they were lost.
  [[nodiscard]] std::uint64_t undecided_losses() const { return emitter_.losses().undecided(); }

 private:
  struct Pending {
    std::uint64_t position = 0;
    std::uint64_t losses = 0;  // logged before it
    Command command;
  };
  struct LiveBlock {
    std::uint64_t size_bytes = 0;
  };

  void run();
  // The next one, if all records before it were taken; otherwise only its position.
  std::optional<Pending> next_command(std::uint64_t& position);
  // Whether there was anything to do.
  bool pump();
  std::uint64_t pump_until(std::uint64_t position);
  void take(const Record& record);
  // Those that happened before the record at this position of the ring.
  void take_losses_before(std::uint64_t position);
  // The first `count` ever logged.
  void take_losses(std::uint64_t count);
  void take_loss(const LossEntry& entry);
  void collect_losses();
  void catch_up();
  void take(const EventRecord& record);
  void take(const NodeRecord& record);
  void take_cpu(const EventRecord& record, DrainedEvent& event);
  void take_cpu_free(const DrainedEvent& event);
  void deliver_free(DrainedEvent event, std::uint64_t size_bytes);
  void deliver(const DrainedEvent& event);
  void run_periodic();
  // Queries the cards; the answer is placed after everything in the ring at that point.
  void sample_in_order();
  [[nodiscard]] std::vector<DeviceSample> query_cards();
  void deliver(const std::vector<DeviceSample>& samples);

  Ring& ring_;
  Emitter& emitter_;
  std::thread thread_;
  std::mutex mutex_;  // guards the two below
  std::condition_variable wakes_;
  std::deque<Pending> commands_;
  bool is_stopping_ = false;

  // Used by the thread alone:
  Clock clock_;
  StackMirror stack_mirror_;
  ForwardStacks forward_stacks_;
  std::vector<std::unique_ptr<Output>> outputs_;
  std::vector<std::string> tags_ = {""};
  FlatMap<LiveBlock> live_;  // CPU memory we saw allocated
  std::deque<LossEntry> losses_;
  std::vector<LossEntry> collected_;
  std::uint64_t losses_taken_ = 0;
  std::uint64_t losses_collected_ = 0;
  Cards cards_;
  std::map<LabelSetNumber, std::vector<StorageLabel>> label_sets_;
  bool has_pool_changed_ = false;  // since the cards were last queried
  Output* joining_ = nullptr;
  std::uint8_t next_to_join_ = 0;
  Output* freezing_ = nullptr;  // torch is listing its devices for the self-test
  std::uint8_t next_to_freeze_ = 0;
  std::chrono::steady_clock::time_point last_flush_;
  std::chrono::steady_clock::time_point last_sample_;
};

}  // namespace gpumemprof::capture
