#include "analysis/leaks/leak_advice.h"

#include "analysis/code/torch_code.h"

namespace gpumemprof {
namespace {

enum class Holder : std::uint8_t { unknown, hook, copies, loader, function };

std::string_view file_of(const Store& store, StackId stack) {
  return store.text(store.frame(store.stacks().frame(stack)).file);
}
std::string_view name_of(const Store& store, StackId stack) {
  return plain_name(store.text(store.frame(store.stacks().frame(stack)).name));
}

// What the frames around the innermost line of user code say about who keeps the memory.
Holder holder_of(const Store& store, StackId stack) {
  bool is_in_user_code = false;
  for (StackId at = stack; !at.is_none(); at = store.stacks().caller(at)) {
    const std::string_view file = file_of(store, at);
    if (!is_in_user_code && file.ends_with("/copy.py")) return Holder::copies;
    if (is_library_file(file)) continue;
    is_in_user_code = true;
    const StackId caller = store.stacks().caller(at);
    if (caller.is_none()) break;
    const std::string_view above = file_of(store, caller);
    const std::string_view name = name_of(store, at);
    if (lies_in(above, "torch/nn/modules/module.py") && name != "forward") return Holder::hook;
    if (lies_in(above, "torch/utils/hooks.py")) return Holder::hook;
    if (lies_in(above, "torch/utils/data/")) return Holder::loader;
    if (lies_in(above, "torch/autograd/function.py") || lies_in(above, "torch/autograd/graph.py"))
      return Holder::function;
  }
  return Holder::unknown;
}

}  // namespace

std::string leak_advice(const Store& store, const LeakEvidence& evidence) {
  if (evidence.is_cycle)
    return "Objects that refer to each other hold it until Python's garbage collector runs: break "
           "the cycle (weakref, del), or call gc.collect() now and then.";
  switch (holder_of(store, evidence.stack)) {
    case Holder::hook:
      return "A hook allocates it: remove the hook (handle.remove()) or keep only the last value.";
    case Holder::copies:
      return "Copies of a model or of its state are kept: keep the best one only, or move copies "
             "off the device.";
    case Holder::loader:
      return "The data set keeps what it loads: bound its cache, or do not cache.";
    case Holder::function:
      return "A function of autograd, or a hook on what it saves, keeps it: use "
             "ctx.save_for_backward() and keep no reference to ctx.";
    case Holder::unknown:
      break;
  }
  if (evidence.source == MemorySource::optimizer_state)
    return "Optimizers are kept with their state: create the optimizer once, or drop the old one.";
  if (evidence.source == MemorySource::kv_cache)
    return "The keys and values of past requests are kept: drop a session when it ends, or bound "
           "their number.";
  if (evidence.is_replaced)
    return "One tensor is replaced by a larger one each time: bound its length, or write into a "
           "tensor of fixed size.";
  if (evidence.is_backward || evidence.source == MemorySource::gradients)
    return "What backward makes is kept: drop copies of gradients, and set gradients to None after "
           "backward(create_graph=True).";
  constexpr double kSeveral = 1.5;
  if (evidence.source == MemorySource::activations && evidence.blocks_per_step > kSeveral)
    return evidence.is_inference
               ? "A result is kept with the graph that made it: run under torch.no_grad(), or keep "
                 "result.detach()."
               : "A result is kept with the graph that made it: keep loss.item() or "
                 "result.detach() instead.";
  if (evidence.source == MemorySource::activations)
    return "An output of the model is kept from step to step: drop it (del), keep a number "
           "(.item()), or bound the container that holds it.";
  return "Something keeps one more of them each time: drop them (del), or bound the list, dict or "
         "cache that holds them.";
}

std::string leak_doubt(const LeakEvidence& evidence) {
  constexpr std::uint32_t kFew = 6;
  constexpr std::uint32_t kMany = 100;
  if (evidence.is_cycle) return {};
  if (evidence.rises < kFew)
    return "It rose only " + std::to_string(evidence.rises) + " times: record more steps.";
  if (evidence.rises < kMany)
    return "A buffer or cache with a bound looks the same until it is full: this one has grown " +
           std::to_string(evidence.rises) + " times and has not reached one.";
  return {};
}

}  // namespace gpumemprof
