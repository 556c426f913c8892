// Autograd: which node of the graph is created or run, so that memory allocated in backward can be
// attributed to the forward line it serves.
//
// Every node has a sequence number, counted by the thread that creates it. torch takes the next one
// through a call in its library's GOT, and starts each node of a backward the same way; we redirect
// both calls here. Libraries with their own autograd functions, such as torchvision and the Python
// part of torch, take numbers through calls in their own GOTs. The first hook records the current
// stack, the second the number of the node whose gradient is being computed. Where a node keeps its
// number is found, and validated, on nodes whose numbers torch reports; if that fails, no node is
// read.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "capture/stream/emitter.h"

namespace gpumemprof::capture {

// The node behind torch's Python object (`grad_fn`), and the number torch reports for it.
struct ExpectedNode {
  std::uintptr_t grad_fn = 0;
  std::uint64_t sequence = 0;
};

// Attaches, but does not trust what it reads yet. Call once libtorch is loaded; safe to call again.
Status attach_autograd_hook();
// Also follows nodes created by libraries loaded since the last call; quick if there are none.
void follow_libraries();
// Two nodes that the calling thread created one after the other, the second being its latest: if
// they read as torch reports them, what is read from now on is trusted.
Status validate_autograd(ExpectedNode first, ExpectedNode second);

// nullptr: nodes are not recorded.
void set_autograd_emitter(Emitter* emitter);

}  // namespace gpumemprof::capture
