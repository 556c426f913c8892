#include "analysis/advice/completion/known_optimizer.h"

#include <algorithm>
#include <array>

namespace gpumemprof {

std::string_view optimizer_file(const Store& store, StackId stack) {
  constexpr std::string_view kFolder = "torch/optim/";
  for (StackId at = stack; !at.is_none(); at = store.stacks().caller(at)) {
    const std::string_view file = store.text(store.frame(store.stacks().frame(at)).file);
    const std::size_t place = file.rfind(kFolder);
    if (place != std::string_view::npos) return file.substr(place + kFolder.size());
  }
  return {};
}

std::uint32_t states_of_optimizer(std::string_view file) {
  constexpr std::array<std::string_view, 5> kOfTwo = {"adam.py", "adamw.py", "nadam.py", "radam.py",
                                                      "adamax.py"};
  return std::find(kOfTwo.begin(), kOfTwo.end(), file) != kOfTwo.end() ? 2 : 0;
}

}  // namespace gpumemprof
