// Code: the lines of the program and of torch that allocate, as stacks of the file.
#pragma once

#include <string>
#include <string_view>

#include "event/event_sink.h"

namespace gpumemprof::long_run {

inline constexpr std::string_view kTrainFile = "/srv/gpt/train.py";
inline constexpr std::string_view kModelFile = "/srv/gpt/model.py";

// "torch/nn/modules/linear.py" → where it is installed.
std::string library_file(std::string_view path);

class Code {
 public:
  explicit Code(EventSink& sink) : sink_(&sink) {}

  [[nodiscard]] StackId call(StackId caller, std::string_view name, std::string_view file,
                             std::uint32_t line) const;
  // A frame of torch.
  [[nodiscard]] StackId torch(StackId caller, std::string_view name, std::string_view path,
                              std::uint32_t line) const;
  // A module is called: torch's frames of any module, then those of its forward().
  [[nodiscard]] StackId module(StackId caller, std::string_view name, std::string_view file,
                               std::uint32_t line) const;
  [[nodiscard]] StackId torch_module(StackId caller, std::string_view name, std::string_view path,
                                     std::uint32_t line) const;

  // A line of train.py's main().
  [[nodiscard]] StackId main_line(std::uint32_t line) const;
  // DataLoader's worker function, which moves the batch to the card.
  [[nodiscard]] StackId loading(StackId caller) const;
  // model.to("cuda"), for a parameter that is so many modules deep.
  [[nodiscard]] StackId moving_parameters(std::size_t depth) const;
  [[nodiscard]] StackId clipping(std::string_view name, std::uint32_t line) const;
  // Inside of optimizer.step().
  [[nodiscard]] StackId making_state(std::uint32_t line) const;
  [[nodiscard]] StackId updating() const;
  [[nodiscard]] StackId zeroing_gradients() const;
  [[nodiscard]] StackId beginning_backward() const;
  [[nodiscard]] StackId emptying_cache() const;

 private:
  [[nodiscard]] StackId optimizer_step(std::uint32_t line) const;

  EventSink* sink_;
};

}  // namespace gpumemprof::long_run
