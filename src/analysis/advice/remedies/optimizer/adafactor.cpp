// adafactor: of a matrix, only sums over its rows and columns are kept.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"

namespace gpumemprof::remedies {
namespace {

// Elements that Adafactor keeps for a matrix: its rows and columns, as close to square as possible,
// since its shape is not in the recording.
std::uint64_t rows_and_columns(std::uint64_t elements) {
  std::uint64_t root = 1;
  while (root * root < elements) root *= 2;
  return 3 * root;
}

// For a convolution's weights it takes the last two dimensions, the kernel window, as the matrix:
// rows and columns of each window. For one-element windows that is twice the weights.
std::uint64_t windows_rows_and_columns(std::uint64_t elements) {
  for (const std::uint64_t side : {7U, 5U, 3U}) {
    if (elements % (side * side) == 0) return 2 * elements / side;
  }
  return 2 * elements;
}

// How a model's weights are used: convolutions, and linear layers after the last of them.
struct LayerCount {
  std::size_t convolutions = 0;
  std::size_t products = 0;
  std::size_t linear_at_the_end = 0;
};

LayerCount count_layers(const RunFacts& facts) {
  LayerCount count;
  const ForwardPass* pass = facts.last_whole_pass();
  if (pass == nullptr) return count;
  for (const Operation& operation : pass->operations) {
    if (operation.kind != OpKind::matmul) continue;
    ++count.products;
    const bool is_window = is_convolution(facts.store(), operation.stack);
    count.convolutions += is_window ? 1 : 0;
    count.linear_at_the_end = is_window ? 0 : count.linear_at_the_end + 1;
  }
  return count;
}

// Gradients are computed in the reverse order of the layers.
std::vector<std::uint64_t> adafactor_states(const RunFacts& facts) {
  constexpr std::uint64_t kVectorElements = 4096;  // a bias or a scale is usually no larger
  const LayerCount layers = count_layers(facts);
  const bool is_of_windows = 2 * layers.convolutions > layers.products;
  std::size_t matrices = 0;
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t bytes : facts.parameters()) {
    const std::uint64_t elements = bytes / kFloatBytes;
    if (elements < kVectorElements) {
      sizes.push_back(bytes);
      continue;
    }
    const bool is_window = is_of_windows && matrices++ >= layers.linear_at_the_end;
    sizes.push_back((is_window ? windows_rows_and_columns(elements) : rows_and_columns(elements)) *
                    kFloatBytes);
  }
  return sizes;
}

void adafactor_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
  replace_states(changed, adafactor_states(changed.facts));
  add_step_temporaries(changed, 1);
}

}  // namespace

RemedySpec adafactor() {
  return {
      .name = "adafactor",
      .title = "Adafactor: state of rows and columns instead of matrices",
      .cost = RemedyCost::changes_training,
      .how = "optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)",
      .how_trainer = "TrainingArguments(optim=\"adafactor\")",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.02,
      .is_estimated = true,
      .least = {.keeps_optimizer = false},
      .fit_cost = 90,
      .fit_order = 32,
      .rewrite = adafactor_rewrite,
  };
}

}  // namespace gpumemprof::remedies
