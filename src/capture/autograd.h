// Autograd: which node of the graph is made or run, so that memory allocated in backward can be
// told by the forward line it serves.
//
// Every node has a sequence number, counted by the thread that makes it. torch takes the next one
// by a call that goes through its library's table, and so it starts each node of a backward; we
// lead both calls through here. Libraries with autograd functions of their own, as torchvision's
// and Python's part of torch are, take numbers by calls through their own tables. The first notes
// the stack of the moment, the second the number of the node whose gradient is being computed.
// Where a node keeps its number is found, and proven, on nodes whose numbers torch tells; where the
// proof fails no node is read.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "capture/emitter.h"

namespace gpumemprof::capture {

// A node behind torch's Python object of it (`grad_fn`), and the number torch tells of it.
struct ToldNode {
  std::uintptr_t grad_fn = 0;
  std::uint64_t sequence = 0;
};

// Attaches, not yet trusted. Call once libtorch is loaded; again does no harm.
Status attach_autograd_hook();
// Follows the nodes that libraries make which were loaded since; quick where there are none.
void follow_libraries();
// Two nodes that the calling thread has made one after the other, the second being its last: trusts
// what is read from now on, if they are read as torch tells them.
Status prove_autograd(ToldNode first, ToldNode second);

// nullptr: nodes are not noted.
void set_autograd_emitter(Emitter* emitter);

}  // namespace gpumemprof::capture
