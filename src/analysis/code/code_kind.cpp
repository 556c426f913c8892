#include "analysis/code/code_kind.h"

#include <string_view>

#include "analysis/code/torch_code.h"
#include "analysis/code/user_frame.h"

namespace gpumemprof {
namespace {

// The kind of a stack from that of its caller and its innermost frame: the innermost call says
// most, because an optimizer may call forward and backward through a closure.
CodeKind called(CodeKind caller, FrameRole frame) {
  switch (frame) {
    case FrameRole::forward:
      // Data transforms may be modules too.
      if (caller == CodeKind::load_data) return caller;
      // Compiled backward code names the forward it was generated from.
      return is_in_backward(caller) ? caller : CodeKind::forward;
    case FrameRole::module_call:
      if (caller == CodeKind::load_data) return caller;
      return is_in_backward(caller) ? CodeKind::recompute : CodeKind::forward;
    case FrameRole::backward:
      // Native frames of autograd's thread may appear inside its Python ones.
      return caller == CodeKind::recompute ? caller : CodeKind::backward;
    case FrameRole::named_backward:
      // Called by autograd it computes gradients; called by the program it prepares for that, as
      // when it scales the loss.
      if (caller == CodeKind::none) return CodeKind::backward;
      return caller;
    case FrameRole::recompute:
      return CodeKind::recompute;
    case FrameRole::workspace:
      return CodeKind::workspace;
    case FrameRole::communicate:
      return CodeKind::communicate;
    case FrameRole::optimizer_step:
      return CodeKind::optimizer_step;
    case FrameRole::optimizer_other:
      return caller == CodeKind::optimizer_step ? caller : CodeKind::optimizer_setup;
    case FrameRole::zero_grad:
      return CodeKind::zero_grad;
    case FrameRole::make_parameters:
      return CodeKind::make_parameters;
    case FrameRole::make_buckets:
      return CodeKind::make_buckets;
    case FrameRole::load_data:
      return caller == CodeKind::plain || caller == CodeKind::constructor ? CodeKind::load_data
                                                                          : caller;
    case FrameRole::constructor:
      return caller == CodeKind::plain ? CodeKind::constructor : caller;
    case FrameRole::root:
      return CodeKind::plain;
    case FrameRole::plain:
      break;
  }
  return caller == CodeKind::none ? CodeKind::plain : caller;
}

std::vector<FrameRole> frame_roles(const Store& store) {
  std::vector<FrameRole> roles;
  roles.reserve(store.frames().size());
  for (const Frame& frame : store.frames().span())
    roles.push_back(meaning_of_frame(store.text(frame.file), store.text(frame.name)).role);
  return roles;
}

// Which frames run torch's own optimizers: what these call outside of torch is the closure that
// step() was given, unless the optimizer is the program's own.
enum class OptimizerPart : std::uint8_t {
  none,   // neither torch nor native
  any,    // native, or elsewhere in torch: a part if the caller is
  entry,  // what wraps every step, whoever wrote the optimizer
  body,
};

OptimizerPart optimizer_part(const Store& store, FrameId frame) {
  const std::string_view file = store.text(store.frame(frame).file);
  if (!is_python(store, frame)) return OptimizerPart::any;
  if (file.ends_with("torch/optim/optimizer.py") || file.ends_with("torch/optim/lr_scheduler.py"))
    return OptimizerPart::entry;
  if (lies_in(file, "torch/optim/")) return OptimizerPart::body;
  return lies_in(file, "torch/") ? OptimizerPart::any : OptimizerPart::none;
}

std::vector<OptimizerPart> optimizer_parts(const Store& store) {
  std::vector<OptimizerPart> parts;
  parts.reserve(store.frames().size());
  for (std::size_t frame = 0; frame < store.frames().size(); ++frame)
    parts.push_back(optimizer_part(store, FrameId(frame)));
  return parts;
}

}  // namespace

std::vector<CodeKind> code_kinds(const Store& store) {
  const std::vector<FrameRole> frames = frame_roles(store);
  const StackTrie& stacks = store.stacks();
  const std::vector<OptimizerPart> parts = optimizer_parts(store);
  std::vector<bool> is_in_optimizer;  // by stack
  is_in_optimizer.reserve(stacks.size());
  std::vector<CodeKind> kinds;
  kinds.reserve(stacks.size());
  bool has_roots = false;
  for (const FrameRole kind : frames) has_roots = has_roots || kind == FrameRole::root;
  // A caller is added before its callee.
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const StackId stack(index);
    const StackId caller = stacks.caller(stack);
    const FrameRole frame = frames[stacks.frame(stack).index];
    // Autograd's own threads call Python only for hooks, custom functions and recomputation: their
    // stacks have no root.
    const CodeKind outside =
        has_roots && frame != FrameRole::root ? CodeKind::backward : CodeKind::none;
    const OptimizerPart part = parts[stacks.frame(stack).index];
    const bool is_caller_in = !caller.is_none() && is_in_optimizer[caller.index];
    is_in_optimizer.push_back(part == OptimizerPart::body ||
                              (part == OptimizerPart::any && is_caller_in));
    CodeKind around = caller.is_none() ? outside : kinds[caller.index];
    const bool is_closure = is_caller_in && part == OptimizerPart::none;
    if (is_closure && around == CodeKind::optimizer_step) around = CodeKind::plain;
    kinds.push_back(called(around, frame));
  }
  return kinds;
}

bool is_module_forward(const Store& store, FrameId frame) {
  return plain_name(store.text(store.frame(frame).name)) == "forward";
}

bool is_module_call(const Store& store, FrameId frame) {
  return plain_name(store.text(store.frame(frame).name)) == "_wrapped_call_impl" &&
         store.text(store.frame(frame).file).ends_with("torch/nn/modules/module.py");
}

bool is_line_of_module(const Store& store, FrameId frame) {
  const std::string_view name = plain_name(store.text(store.frame(frame).name));
  return name != "forward" && name != "__call__" && name != "wrapper" &&
         !lies_in(store.text(store.frame(frame).file), "torch/");
}

bool is_torch_module(const Store& store, FrameId frame) {
  return !frame.is_none() && lies_in(store.text(store.frame(frame).file), "torch/nn/");
}

}  // namespace gpumemprof
