// Drain: the thread that empties the ring and writes the files. Holds no lock while it writes and
// never takes the GIL.
//
// Commands (start an output, mark, join, stop) run on this thread, each after the records that were
// in the ring when it was submitted and before those that came later. Lost events (losses.h) keep
// their place among both.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/ledger/card.h"
#include "capture/ledger/host_memory.h"
#include "capture/output/outputs.h"
#include "capture/own_thread.h"
#include "capture/stream/emitter.h"
#include "capture/stream/loss_queue.h"
#include "capture/stream/record_interpreter.h"
#include "capture/stream/ring.h"

namespace gpumemprof::capture {

class Drain {
 public:
  Drain(Ring& ring, Emitter& emitter)
      : ring_(ring),
        emitter_(emitter),
        interpreter_(emitter.losses(), outputs_),
        losses_(emitter.losses()) {}
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

  // For a signal handler: has the thread close all recordings, because of this signal, and nothing
  // else after that. The name must outlive the process.
  void close_soon(const char* signal_name) {
    closes_for_.store(signal_name, std::memory_order_release);
  }
  enum class Closed : std::uint8_t { not_yet, empty, with_events };
  [[nodiscard]] Closed closed() const { return closed_.load(std::memory_order_acquire); }

  // For commands:
  [[nodiscard]] Outputs& outputs() { return outputs_; }
  std::unique_ptr<Output> take_output(RecordingNumber number);
  void mark(const std::string& name, Annotation::Stage stage, std::uint64_t ticks);
  void watch_card(DeviceIndex device, const std::string& uuid);
  // Starts a program beside this one when the recording is that old and still open.
  void start_later(RecordingNumber recording, std::vector<std::string> words,
                   std::chrono::milliseconds later);
  // Calls it once that many more records were taken, which are events but for a few.
  void call_after(std::uint64_t records, void (*call)()) {
    call_at_ = ring_.tail() + records;
    call_ = call;
  }
  // Asked at every sample of the cards; what it returns is written to each recording.
  using FactsSource = Facts (*)();
  void add_facts_of(FactsSource source) { facts_source_ = source; }
  void sample_cards();
  void describe_modules(const std::vector<ModuleDescription>& modules);
  void hide_files(std::vector<std::string> path_beginnings) {
    interpreter_.stacks().hide_files(std::move(path_beginnings));
  }
  void forget_module(std::uint64_t address) { interpreter_.stacks().modules().forget(address); }
  void set_line_table_format(LineTableFormat format) {
    interpreter_.stacks().set_line_table_format(format);
  }
  // Events for which it is unknown whether they were lost.
  [[nodiscard]] std::uint64_t undecided_losses() const { return emitter_.losses().undecided(); }

 private:
  struct Pending {
    std::uint64_t position = 0;
    std::uint64_t losses = 0;  // logged before it
    Command command;
  };

  // With mutex_ held.
  void enqueue(Command command);
  void run();
  // Takes what can be taken, and closes all recordings.
  void close_for(const char* signal_name);
  // The next one, if all records before it were taken; otherwise only its position.
  std::optional<Pending> next_command(std::uint64_t& position);
  // Whether there was anything to do.
  bool pump();
  std::uint64_t pump_until(std::uint64_t position);
  void catch_up_with_losses();
  void run_periodic();
  void start_what_is_due();
  // Queries the cards; the answer is placed after everything in the ring at that point.
  void sample_in_order();
  void watch_host_memory();
  // `is_asked`: also what is written already.
  void write_sourced_facts(bool is_asked);
  [[nodiscard]] std::vector<DeviceSample> query_cards();

  Ring& ring_;
  Emitter& emitter_;
  OwnThread thread_;
  std::mutex mutex_;  // guards the two below
  std::condition_variable wakes_;
  std::deque<Pending> commands_;
  bool is_stopping_ = false;
  std::atomic<const char*> closes_for_{nullptr};
  std::atomic<Closed> closed_{Closed::not_yet};

  // Used by the thread alone:
  Outputs outputs_;
  RecordInterpreter interpreter_;
  LossQueue losses_;
  Cards cards_;
  std::chrono::steady_clock::time_point last_flush_;
  std::chrono::steady_clock::time_point last_sample_;
  struct Later {
    RecordingNumber recording = 0;
    std::vector<std::string> words;
    std::chrono::steady_clock::time_point due;
  };
  std::vector<Later> later_;
  std::uint64_t call_at_ = 0;
  void (*call_)() = nullptr;
  FactsSource facts_source_ = nullptr;
  Facts written_facts_;
  HostMemoryWatch host_memory_;
  RecordingNumber newest_at_host_look_ = 0;
  std::chrono::steady_clock::time_point last_host_look_;
  std::chrono::steady_clock::time_point last_facts_;
};

}  // namespace gpumemprof::capture
