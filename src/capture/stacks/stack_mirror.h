// StackMirror: the drain's view of the stacks: a mirror of every thread's stack, and every distinct
// frame and stack once. Stacks that differ only in their modules are distinct.
//
// Ids are the mirror's own; each output has its own for its file. For the drain thread alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/flat_map.h"
#include "base/interner.h"
#include "capture/native/loaded_modules.h"
#include "capture/record.h"
#include "capture/stacks/line_table.h"
#include "capture/stacks/module_numbers.h"
#include "event/recording.h"

namespace gpumemprof::capture {

class StackMirror {
 public:
  void set_line_table_format(LineTableFormat format) { format_ = format; }

  // Frames of files whose paths begin like this are left out of the stacks; for code that is
  // described from now on.
  void hide_files(std::vector<std::string> path_beginnings) {
    hidden_files_ = std::move(path_beginnings);
  }

  void take(const FramesRecord& record);
  void take(const CodeRecord& record);
  void take(const ModuleRecord& record) { modules_.take(record); }
  // The thread's innermost frame moved to another instruction.
  void move(std::uint16_t thread, std::uint32_t instruction);
  void take(const NativeRecord& record);
  // The stack the thread has now; none if its records were lost.
  [[nodiscard]] StackId stack_of(std::uint16_t thread) const;
  // The same with the frames of one of the thread's native stacks below it.
  [[nodiscard]] StackId native_stack_of(std::uint16_t thread, std::uint32_t number, StackId below);
  // The module of a native frame; nullptr for another frame.
  [[nodiscard]] const NativeModule* native_module(const Frame& frame) const;
  // Native modules were unloaded: what is at their addresses now may be something else.
  bool forget_unloaded();

  [[nodiscard]] std::string_view text(StringId id) const { return strings_.text(id); }
  [[nodiscard]] const Frame& frame(FrameId id) const { return frames_[id.index]; }
  [[nodiscard]] StackId caller(StackId id) const { return stacks_[id.index].caller; }
  [[nodiscard]] FrameId innermost(StackId id) const { return stacks_[id.index].frame; }
  // The module that owns memory allocated with this stack; in backward, for a node created with the
  // other stack.
  [[nodiscard]] std::uint32_t module_of(StackId stack, StackId forward_stack) const;
  [[nodiscard]] ModuleNumbers& modules() { return modules_; }
  [[nodiscard]] const ModuleNumbers& modules() const { return modules_; }
  [[nodiscard]] std::size_t stack_count() const { return stacks_.size(); }

 private:
  struct Code {
    StringId name;
    StringId file;
    std::uint32_t first_line = 0;
    std::string line_table;
    bool is_hidden = false;
    bool runs_backward = false;  // autograd's engine: what it calls belongs to no module around it
  };
  struct Step {
    StackId caller;
    FrameId frame;
    std::uint32_t module = kNoModule;         // the innermost one
    std::uint32_t module_inside = kNoModule;  // called since autograd's engine started running
  };
  struct Level {
    StackId stack;
    std::uint32_t code = 0;
    std::uint32_t module = kNoModule;  // of the frame itself
  };
  // One of a thread's native stacks, and what it was last found to be below a stack of Python's.
  struct NativePath {
    std::vector<std::uint64_t> addresses;  // outermost first; also empty if not known
    StackId below;
    StackId stack;
    std::uint32_t generation = 0;  // 0: not looked up yet
  };
  struct ThreadStack {
    std::vector<std::uint64_t> native_path;  // as it was last sent, outermost first
    std::vector<NativePath> native;          // by number
    std::vector<Level> path;                 // outermost first; also empty if not known
    std::vector<std::uint32_t> code_by_slot;
    std::string pending;  // a description still being received
    std::uint16_t pending_slot = 0;
  };

  ThreadStack& thread_stack(std::uint16_t thread);
  [[nodiscard]] bool is_hidden(std::string_view file) const;
  void enter(ThreadStack& mine, std::uint32_t code, std::uint32_t instruction,
             std::uint32_t module);
  void finish_code(ThreadStack& mine);
  std::uint32_t add_code(Code code);
  FrameId frame_at(std::uint32_t code, std::uint32_t instruction, std::uint32_t module);
  StackId add_stack(StackId caller, FrameId frame, std::uint32_t code, std::uint32_t module);
  StackId add_native_stack(StackId caller, FrameId frame);
  FrameId native_frame(std::uint64_t address);

  std::vector<std::string> hidden_files_;
  LineTableFormat format_ = LineTableFormat::locations;
  Interner strings_;
  std::vector<Code> codes_;
  FlatMap<std::uint32_t> codes_by_hash_;
  Column<Frame> frames_;
  FlatMap<std::uint32_t> frames_by_place_;   // (code, instruction)
  FlatMap<std::uint32_t> frames_by_module_;  // (frame without a module, module)
  Column<Step> stacks_;
  FlatMap<std::uint32_t> stacks_by_step_;  // (caller, frame)
  std::vector<std::unique_ptr<ThreadStack>> threads_;
  ModuleNumbers modules_;
  LoadedModules native_modules_;
  std::uint32_t native_generation_ = 1;      // of the modules that frames were looked up in
  FlatMap<std::uint32_t> native_frames_;     // by address
  FlatMap<std::uint32_t> native_module_of_;  // by the string of its key
};

}  // namespace gpumemprof::capture
