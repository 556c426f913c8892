#include "verbs/text_mutation.h"

#include <iterator>
#include <string_view>

namespace gpumemprof::fuzz {

void change_text(std::string& text, Choices& choices) {
  constexpr std::string_view kTexts[] = {
      "",
      "forward",
      "backward",
      "step",
      "zero_grad",
      "_call_impl",
      "_wrapped_call_impl",
      "wrapper",
      "linear",
      "conv2d",
      "scaled_dot_product_attention",
      "softmax",
      "cross_entropy",
      "layer_norm",
      "embedding",
      "max_pool2d",
      "checkpoint",
      "<module>",
      "ProfilerStep#1",
      "/usr/lib/python3/dist-packages/torch/autograd/__init__.py",
      "/usr/lib/python3/dist-packages/torch/nn/modules/module.py",
      "/usr/lib/python3/dist-packages/torch/optim/adam.py",
      "/usr/lib/python3/dist-packages/torch/nn/functional.py",
      "train.py",
      "active_allocated",
      "active_pending_free",
      "active_awaiting_free",
      "inactive",
      "small",
      "large",
      "\x1b[31m\xc2\x9b\xe2\x80\xae",
      "\xff\xfe not UTF-8 \xed\xa0\x80"};
  if (choices.one_in(8)) {
    text.append(choices.below(3000), 'x');
  } else {
    text = kTexts[choices.below(std::size(kTexts))];
  }
}

}  // namespace gpumemprof::fuzz
