#include "long_run/passes.h"

#include "long_run/autograd.h"

namespace gpumemprof::long_run {
namespace {

// GPT.forward(), line by line.
class ModelTracer {
 public:
  ModelTracer(const Model& model, const Code& code, Autograd& autograd, Slot first_gradient,
              bool is_training)
      : model_(model),
        code_(code),
        autograd_(autograd),
        first_gradient_(first_gradient),
        is_training_(is_training) {}

  // Returns the loss. `caller` is the line that calls the model.
  TensorId run(StackId caller) {
    const auto line = [&](std::uint32_t number) {
      return code_.module(caller, "GPT.forward", kModelFile, number);
    };
    TensorId x = embed(line);
    for (std::uint64_t layer = 0; layer < model_.shape().layers; ++layer)
      x = block(line(169), x, "h." + std::to_string(layer));
    const TensorId normed = layer_norm(line(170), x, "ln_f");
    autograd_.drop(x, line(170));
    const TensorId logits =
        linear(line(171), normed, "lm_head", model_.shape().vocabulary * kFloatBytes);
    autograd_.drop(normed, line(171));
    return loss(line(172), logits, caller);
  }

  [[nodiscard]] const Place& first_matmul() const { return first_matmul_; }

 private:
  [[nodiscard]] std::uint64_t width_bytes() const { return model_.shape().width * kFloatBytes; }

  [[nodiscard]] std::vector<ParameterGradient> gradients_of(const std::string& path) const {
    std::vector<ParameterGradient> gradients;
    for (const std::size_t row : model_.rows_of(path)) {
      gradients.push_back(
          {first_gradient_ + static_cast<Slot>(row), fixed(model_.parameters()[row].size_bytes)});
    }
    return gradients;
  }
  [[nodiscard]] Place place(StackId stack, const std::string& path) const {
    return {stack, {}, model_.number(path)};
  }

  TensorId embedding(StackId caller, const std::string& path) {
    const StackId forward =
        code_.torch_module(caller, "Embedding.forward", "torch/nn/modules/sparse.py", 192);
    const StackId stack = code_.torch(forward, "embedding", "torch/nn/functional.py", 2567);
    Operation operation{place(stack, path), {}, per_token(width_bytes()), false, false, {}};
    operation.parameters = gradients_of(path);
    // The indexes are sorted, with temporary memory.
    operation.backward_scratch = {per_token(kIndexBytes), per_token(kIndexBytes), {1'024, 16}};
    return autograd_.apply(operation);
  }

  template <typename Line>
  TensorId embed(const Line& line) {
    const TensorId tokens = embedding(line(163), "wte");
    const TensorId positions = embedding(line(164), "wpe");
    const TensorId sum = add(line(165), tokens, positions, "");
    const TensorId x = dropout(line(166), sum, "drop");
    return x;
  }

  TensorId block(StackId caller, TensorId x, const std::string& path) {
    const StackId attending = code_.module(caller, "Block.forward", kModelFile, 103);
    TensorId normed = layer_norm(attending, x, path + ".ln_1");
    const TensorId attended = attention(attending, normed, path + ".attn");
    const TensorId middle = add(attending, x, attended, path);
    const StackId thinking = code_.module(caller, "Block.forward", kModelFile, 104);
    normed = layer_norm(thinking, middle, path + ".ln_2");
    const TensorId thought = mlp(thinking, normed, path + ".mlp");
    return add(thinking, middle, thought, path);
  }

  TensorId attention(StackId caller, TensorId x, const std::string& path) {
    const auto line = [&](std::uint32_t number) {
      return code_.module(caller, "CausalSelfAttention.forward", kModelFile, number);
    };
    const TensorId qkv = linear(line(54), x, path + ".c_attn", 3 * width_bytes());
    autograd_.drop(x, line(54));
    const std::uint64_t statistics_bytes = model_.shape().heads * kFloatBytes;
    Operation attend{place(line(61), path), {qkv}, per_token(width_bytes()), true, true, {}};
    attend.saves = {per_token(statistics_bytes), fixed(kIndexBytes), fixed(kIndexBytes)};
    attend.backward_scratch = {per_token(statistics_bytes), per_token(width_bytes()),
                               per_token(width_bytes()), per_token(width_bytes())};
    const TensorId heads = autograd_.apply(attend);
    autograd_.drop(qkv, line(64));
    const TensorId joined = autograd_.apply(
        {place(line(64), path), {heads}, per_token(width_bytes()), false, false, {}});
    autograd_.drop(heads, line(64));
    const TensorId projected = linear(line(66), joined, path + ".c_proj", width_bytes());
    autograd_.drop(joined, line(66));
    return dropout(line(67), projected, path + ".resid_dropout");
  }

  TensorId mlp(StackId caller, TensorId x, const std::string& path) {
    const auto line = [&](std::uint32_t number) {
      return code_.module(caller, "MLP.forward", kModelFile, number);
    };
    const TensorId wide = linear(line(82), x, path + ".c_fc", 4 * width_bytes());
    autograd_.drop(x, line(82));
    const StackId gelu =
        code_.torch_module(line(83), "GELU.forward", "torch/nn/modules/activation.py", 816);
    const TensorId active = autograd_.apply(
        {place(gelu, path + ".gelu"), {wide}, per_token(4 * width_bytes()), true, false, {}});
    autograd_.drop(wide, line(83));
    const TensorId narrow = linear(line(84), active, path + ".c_proj", width_bytes());
    autograd_.drop(active, line(84));
    return dropout(line(85), narrow, path + ".dropout");
  }

  TensorId linear(StackId caller, TensorId x, const std::string& path, std::uint64_t row_bytes) {
    const StackId stack =
        code_.torch_module(caller, "Linear.forward", "torch/nn/modules/linear.py", 134);
    Operation operation{place(stack, path), {x}, per_token(row_bytes), true, false, {}};
    operation.parameters = gradients_of(path);
    if (first_matmul_.stack.is_none()) first_matmul_ = operation.place;
    return autograd_.apply(operation);
  }

  TensorId layer_norm(StackId caller, TensorId x, const std::string& path) {
    const StackId forward =
        code_.torch_module(caller, "LayerNorm.forward", "torch/nn/modules/normalization.py", 229);
    const StackId stack = code_.torch(forward, "layer_norm", "torch/nn/functional.py", 2901);
    Operation operation{place(stack, path), {x}, per_token(width_bytes()), true, false, {}};
    operation.saves = {per_token(kFloatBytes), per_token(kFloatBytes)};
    operation.parameters = gradients_of(path);
    // Partial sums of the two gradients.
    operation.backward_scratch = {fixed(64 * width_bytes()), fixed(64 * width_bytes())};
    return autograd_.apply(operation);
  }

  // Takes over the caller's use of x.
  TensorId dropout(StackId caller, TensorId x, const std::string& path) {
    if (!is_training_) return x;
    const StackId forward =
        code_.torch_module(caller, "Dropout.forward", "torch/nn/modules/dropout.py", 73);
    const StackId stack = code_.torch(forward, "dropout", "torch/nn/functional.py", 1425);
    const TensorId kept = autograd_.apply({place(stack, path),
                                           {x},
                                           per_token(width_bytes()),
                                           false,
                                           false,
                                           {per_token(model_.shape().width)}});
    autograd_.drop(x, stack);
    return kept;
  }

  // Takes over the caller's use of both.
  TensorId add(StackId stack, TensorId left, TensorId right, const std::string& path) {
    Operation operation{
        place(stack, path), {left, right}, per_token(width_bytes()), false, false, {}};
    operation.passes_gradient = true;
    const TensorId sum = autograd_.apply(operation);
    autograd_.drop(left, stack);
    autograd_.drop(right, stack);
    return sum;
  }

  TensorId loss(StackId line, TensorId logits, StackId caller) {
    const StackId stack = code_.torch(line, "cross_entropy", "torch/nn/functional.py", 3462);
    const std::uint64_t row_bytes = model_.shape().vocabulary * kFloatBytes;
    const TensorId log_probabilities =
        autograd_.apply({place(stack, ""), {logits}, per_token(row_bytes), false, true, {}});
    const TensorId mean = autograd_.apply({place(stack, ""),
                                           {log_probabilities},
                                           fixed(kFloatBytes),
                                           true,
                                           false,
                                           {fixed(kFloatBytes)}});
    autograd_.drop(log_probabilities, stack);
    autograd_.drop(logits, caller);
    return mean;
  }

  const Model& model_;
  const Code& code_;
  Autograd& autograd_;
  Slot first_gradient_;
  bool is_training_;
  Place first_matmul_;
};

}  // namespace

Passes compile_passes(const Model& model, const Code& code, Slots& slots, Slot first_gradient) {
  Passes passes;
  Autograd training(slots, passes.forward, true);
  ModelTracer tracer(model, code, training, first_gradient, true);
  const TensorId loss = tracer.run(code.main_line(121));
  passes.first_matmul = tracer.first_matmul();
  training.backward(passes.backward, loss, code.beginning_backward());
  passes.loss = training.slot(loss);

  Autograd evaluating(slots, passes.evaluation, false);
  const StackId evaluate = code.call(code.main_line(116), "evaluate", kTrainFile, 72);
  ModelTracer evaluator(model, code, evaluating, first_gradient, false);
  passes.evaluation_loss = evaluating.slot(evaluator.run(evaluate));
  return passes;
}

}  // namespace gpumemprof::long_run
