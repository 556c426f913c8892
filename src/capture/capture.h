// Live capture: every allocator event of this process, streamed to a .gmp file while it runs. This
// is the public interface of the folder.
//
//   torch's allocator → callback → ring → drain thread → TraceWriter, one for each open recording
//
// Owns everything it starts for the life of the process. Any thread may call; nothing throws into
// the caller, and the callbacks never wait, allocate, take the GIL or call CUDA. A recording that
// fails (because the disk is full, for example) switches itself off and reports why in its Summary.
// A forked child starts with nothing recorded and cannot write its parent's file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "capture/device_slot.h"
#include "capture/shown_files.h"  // IWYU pragma: export
#include "event/allocator_settings.h"
#include "event/label.h"
#include "event/recording.h"

namespace gpumemprof::capture {

using RecordingNumber = int;
using Facts = std::vector<std::pair<std::string, std::string>>;

struct StartOptions {
  std::string path;
  MemoryKind memory = MemoryKind::cpu;
  bool overwrites = false;
  bool with_stacks = true;
  bool native_stacks = false;      // with those of C++ below Python's
  std::uint32_t native_depth = 0;  // how many of its frames; 0: as many as usual
  // The file is created when there is an event to write. If its name was taken by then, it has the
  // second name, or that with a number.
  bool waits_for_events = false;
  std::string second_name;
  bool is_predicted = false;  // by a simulated device
  // Not 0: the path is a folder of chapters, of which no more than this is kept.
  std::uint64_t keep_bytes = 0;
  std::uint64_t chapter_events = 0;  // in each; 0: as many as usual
  Facts facts;
};

struct DeviceSummary {
  DeviceIndex device = 0;
  std::uint64_t events = 0;
  std::uint64_t requested_bytes = 0;  // at the end
  std::uint64_t peak_requested_bytes = 0;
};

struct Summary {
  std::string path;          // as the file is named in the end
  std::uint64_t events = 0;  // rows in the file
  std::uint64_t lost_events = 0;
  // What the program did, and how much of it is missing from the file: made = recorded + lost.
  EventCounts made;
  EventCounts lost;
  bool has_counts = true;  // false: recording was paused at some point, or a count is not certain
  std::uint64_t size_bytes = 0;
  std::vector<DeviceSummary> devices;
  std::string problem;  // why it ended early; empty if it did not
};

// The allocator's state as torch lists it when a recording joins.
struct ListedBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  BlockStateKind state = BlockStateKind::inactive;
};
struct ListedSegment {
  DeviceIndex device = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  PoolId pool;
  bool is_small = false;
  bool is_expandable = false;
  std::vector<ListedBlock> blocks;
};

// Opens the file and starts recording into it; several may be open at once.
Result<RecordingNumber> start(const StartOptions& options);
// Where it is written, as the file is named in the end; empty if the recording is over. Waits for
// the drain thread: release the GIL first.
std::string path_of(RecordingNumber recording);
// Everything that happened before the call is in the file when it returns. Waits for the drain
// thread: release the GIL first.
Summary stop(RecordingNumber recording, const std::string& reason);
[[nodiscard]] bool is_recording();
// 0: nothing is being recorded. Otherwise it changes when another recording begins, or in a forked
// child.
[[nodiscard]] std::uint64_t newest_recording();
// From now on the recordings are closed before Python ends the process with os._exit(). False: this
// is not possible here.
bool watch_exit();
// From now on they are also closed before a signal ends the process by its default action. Then
// `farewell`, if not empty, is printed on standard error after what killed the program. Its first
// call counts.
void watch_signals(const std::string& farewell);
// Closes everything that is open, for a process that exits without cleaning up.
void stop_all(const std::string& reason);
// What happened before the call, and a sample of each card, go to the files as soon as possible.
// Waits for that, at most this long: release the GIL first. False: it takes longer.
bool flush_all(std::chrono::milliseconds most);
// Everything that happened before the call can be read from the file when it returns. Waits for the
// drain thread: release the GIL first.
void flush_recording(RecordingNumber recording);
// Calls it once, on the drain thread, when about this many more events were recorded in this
// process: it must not wait, not even for the GIL. A later call replaces an earlier one; null
// cancels it.
void call_after_events(std::uint64_t events, void (*call)());
// Adds to the facts stored in the file.
void add_facts(RecordingNumber recording, const Facts& facts);
void set_settings(RecordingNumber recording, const AllocatorSettings& settings);

// For measuring what recording costs, from one step to the next: callbacks do nothing, or leave
// stacks out, while the recordings stay open. What is missed meanwhile is missing from their files.
void hold(bool is_held, bool is_without_stacks);

// CPU tensors: follows libc10's own allocations. Call once libc10 is loaded; safe to call again.
Status attach_cpu();

// CUDA: attaches to the caching allocator; call with CUDA initialised. Attaching lasts for the life
// of the process.
struct TorchVersionNumber {
  int major = 0;
  int minor = 0;
};
Status attach_cuda(TorchVersionNumber version);
// Whether that could work, without doing it.
Status check_cuda(TorchVersionNumber version);
// A recording joins the allocator's events at the state torch lists: begin_join(), then torch's own
// snapshot of `devices` devices, then finish_join() with what it listed. Fails if the tracker did
// not see that snapshot as expected, which means that its events are not read correctly; then
// nothing is recorded.
void begin_join(RecordingNumber recording);
Status finish_join(RecordingNumber recording, int devices,
                   const std::vector<ListedSegment>& segments);
// Between torch's snapshot and finish_join(), for a program that may not have initialised CUDA yet:
// false if the tracker was ignored for that reason. Then the recording has not joined, and the next
// attempt begins with attach_cuda().
bool is_cuda_initialised();

// A device that does not exist, whose allocator is simulated: a recording joins it before its first
// event, and gets every event that is reported from then on, with the stack of the reporting
// thread.
struct SimulatedEvent {
  Action action = Action::other;
  DeviceIndex device = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  PoolId pool;
};
void join_simulated(RecordingNumber recording, int device);
void report_simulated(const SimulatedEvent& event);
// Frames of files whose paths begin like this are left out of all stacks from now on: they belong
// to the simulation, not to the program.
void hide_files(std::vector<std::string> path_beginnings);

// The self-test: once the program has allocated, its events must add up to what torch lists at that
// point: begin_self_test(), torch's own list of `devices` devices, finish_self_test(). A
// contradiction ends the native recording; end_self_test() ends the test.
struct SelfTestResult {
  bool is_done = false;                      // false: events were lost, or the recording is over
  std::optional<std::string> contradiction;  // a sentence
};
bool wait_for_allocation(RecordingNumber recording, std::chrono::milliseconds most);
void begin_self_test(RecordingNumber recording);
Result<SelfTestResult> finish_self_test(RecordingNumber recording, int devices,
                                        const std::vector<ListedSegment>& segments);
void end_self_test(RecordingNumber recording, bool has_passed);

// The card behind a device, by its "GPU-…" id: samples are taken now, at the end, soon after the
// pool grew or shrank, and about once a second.
void watch_card(DeviceIndex device, const std::string& uuid);
// Starts a program beside this one after that long, unless the recording has ended by then. The
// calling thread does not wait for it.
void start_later(RecordingNumber recording, const std::vector<std::string>& words, double seconds);

// Whether stacks can be obtained, and if not, why. Call with the GIL held, before the first
// start().
Status prepare_stacks();
// Likewise for native stacks, which need nothing prepared.
Status check_native_stacks();
struct StackFrame {
  std::string name;
  std::string file;
  std::uint32_t line = 0;
};
// The calling thread's stack as the recorder reads it, innermost first; for comparison with
// Python's own.
std::vector<StackFrame> own_stack();
// Where each thread's own state is kept (stacks/python_layout.h): call the first on a thread that
// Python has just created, and when it is done, the second on any other thread. False: the state is
// still obtained by asking Python.
void find_thread_key();
bool use_thread_key();

// Forward stacks of memory allocated in backward. Call once torch is loaded and a recording with
// stacks is open, then create two autograd nodes and pass both with the numbers torch reports for
// them: forward stacks are switched on only if both read the same.
Status attach_autograd();
Status validate_autograd(std::uintptr_t first_grad_fn, std::uint64_t first_sequence,
                         std::uintptr_t second_grad_fn, std::uint64_t second_sequence);
// Call again to cover libraries with autograd functions that were loaded since.
void follow_autograd_of_libraries();

// Annotations, in all open recordings.
void mark(const std::string& name, Annotation::Stage stage);
// Tags what the calling thread allocates from now on; returns the previous tag, for leave_tag().
std::uint16_t enter_tag(const std::string& name);
void leave_tag(std::uint16_t previous);

// What storages are, in all open recordings. A set is defined once and applied as often as it
// holds: each label then goes to the allocation that is live at its address at that moment, so the
// caller must keep the storages alive until apply_labels() returns. Numbers are never reused.
struct StorageLabel {
  LabelKind kind = LabelKind::parameter;
  DeviceIndex device = kHostDevice;  // CUDA device, or kHostDevice for a CPU tensor
  std::uint64_t address = 0;
  std::string name;
};
using LabelSetNumber = std::uint32_t;
LabelSetNumber define_labels(std::vector<StorageLabel> labels);
// A copy of a set with its addresses replaced by these, in the same order; the original set is
// dropped.
LabelSetNumber move_labels(LabelSetNumber set, std::vector<std::uint64_t> addresses);
void apply_labels(LabelSetNumber set);
void forget_labels(LabelSetNumber set);
void mark_phase(PhaseMark::Kind kind, std::uint32_t number);

struct ModuleDescription {
  std::string path;
  std::string class_name;
  std::string forward_file;
  std::uint32_t forward_line = 0;
  std::uint32_t forward_last_line = 0;
  std::uint64_t address = 0;  // of the module, which identifies its calls; 0: it has none
  bool is_root = false;
};
// Call with the GIL held, so that callbacks do not ask for them.
void describe_modules(std::vector<ModuleDescription> modules);
// Objects of this type have no name other than their class.
void leave_unnamed(std::uintptr_t type);
// `ask` is called from any thread, without the GIL, when a module was called that is not described;
// it arranges for describe_modules() to be called soon. nullptr: names are not asked for. Call
// names_answered() once it was tried.
void ask_for_names(void (*ask)());
void names_answered();
// A described module is about to be destroyed, and another may take its address.
void forget_module(std::uint64_t address);

// Modules by instance. The frames of a module's call, whose code this is, hold the module; the
// first function returns which modules the calling thread is in, innermost first, for comparison
// with Python's own answer, the second switches it on. The code must live as long as the process.
std::vector<std::uintptr_t> own_modules(std::uintptr_t call_code);
void follow_modules(std::uintptr_t call_code);

// The values of the variables of a Python frame object, 0 where there is none: in the order of its
// code object (locals, cells, free variables), then what its calculations hold, if that is known.
// Up to Python 3.12, asking a frame for its locals makes it keep a dict of them, and so keeps alive
// what the program drops later; this leaves the frame as it is. Call with the GIL held. Fails where
// Python keeps them elsewhere.
Result<std::vector<std::uintptr_t>> frame_values(std::uintptr_t frame_object,
                                                 std::size_t variables);

}  // namespace gpumemprof::capture
