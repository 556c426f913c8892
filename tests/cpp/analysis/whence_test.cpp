#include "analysis/code/whence.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace gpumemprof {
namespace {

const std::string kEngine = "/lib/python3.11/site-packages/torch/autograd/graph.py";
const std::string kLinear = "/lib/python3.11/site-packages/torch/nn/modules/linear.py";

struct Call {
  std::string file;
  std::string name;
};

// Outermost first.
StackId stack_of(EventSink& sink, std::initializer_list<Call> calls) {
  StackId stack;
  for (const Call& call : calls) {
    Frame frame;
    frame.file = sink.add_string(call.file);
    frame.name = sink.add_string(call.name);
    frame.line = 7;
    stack = sink.add_stack(stack, sink.add_frame(frame));
  }
  return stack;
}

// Where memory comes from that was allocated under these calls, in backward of a linear layer.
Whence whence_of(std::initializer_list<Call> own, StackId& forward) {
  Store store;
  OwnStacksFirst sink(store);
  forward = stack_of(sink, {{"model.py", "forward"}, {kLinear, "Linear.forward"}});
  Event event;
  event.action = Action::alloc;
  event.size_bytes = 512;
  event.stack = stack_of(sink, own);
  event.forward_stack = forward;
  EventColumns events;
  events.push_back(event);
  sink.add_events(0, std::move(events));
  const Event kept = store.devices().front()->events.row(0);
  return whence(kept.stack, kept.forward_stack);
}

TEST(Whence, of_memory_of_autograds_own_threads_is_the_forward) {
  StackId forward;
  const Whence from = whence_of({}, forward);
  EXPECT_EQ(from.stack, forward);
  EXPECT_TRUE(from.is_backward);
}

TEST(Whence, of_backward_in_the_thread_that_calls_it_is_the_forward) {
  StackId forward;
  const Whence from =
      whence_of({{"train.py", "<module>"}, {kEngine, "_engine_run_backward"}}, forward);
  EXPECT_EQ(from.stack, forward);
  EXPECT_TRUE(from.is_backward);
}

TEST(Whence, of_what_code_of_the_program_allocates_in_backward_is_that_code) {
  StackId forward;
  for (const std::initializer_list<Call> own :
       {std::initializer_list<Call>{{"train.py", "hook"}},
        std::initializer_list<Call>{{"train.py", "<module>"},
                                    {kEngine, "_engine_run_backward"},
                                    {"train.py", "hook"},
                                    {kLinear, "Linear.forward"}}}) {
    const Whence from = whence_of(own, forward);
    EXPECT_NE(from.stack, forward);
    EXPECT_FALSE(from.is_backward);
  }
}

}  // namespace
}  // namespace gpumemprof
