#include "long_run/model.h"

#include <algorithm>

#include "base/error.h"
#include "long_run/code.h"

namespace gpumemprof::long_run {

Model::Model(const Shape& shape) : shape_(shape) {
  add("", "GPT", kModelFile, 158, 182);
  const std::string sparse = library_file("torch/nn/modules/sparse.py");
  add("wte", "Embedding", sparse, 190, 200);
  add_parameter("weight", shape.vocabulary * shape.width);
  add("wpe", "Embedding", sparse, 190, 200);
  add_parameter("weight", shape.positions * shape.width);
  add_dropout("drop");
  for (std::uint64_t layer = 0; layer < shape.layers; ++layer)
    add_layer("h." + std::to_string(layer));
  add_norm("ln_f");
  add_linear("lm_head", shape.width, shape.vocabulary, false);
}

void Model::add_layer(const std::string& path) {
  const std::uint64_t width = shape_.width;
  add(path, "Block", kModelFile, 102, 105);
  add_norm(path + ".ln_1");
  add(path + ".attn", "CausalSelfAttention", kModelFile, 52, 68);
  add_linear(path + ".attn.c_attn", width, 3 * width);
  add_linear(path + ".attn.c_proj", width, width);
  add_dropout(path + ".attn.resid_dropout");
  add_norm(path + ".ln_2");
  add(path + ".mlp", "MLP", kModelFile, 81, 86);
  add_linear(path + ".mlp.c_fc", width, 4 * width);
  add(path + ".mlp.gelu", "GELU", library_file("torch/nn/modules/activation.py"), 815, 816);
  add_linear(path + ".mlp.c_proj", 4 * width, width);
  add_dropout(path + ".mlp.dropout");
}

void Model::add(std::string path, std::string_view class_name, std::string_view file,
                std::uint32_t first_line, std::uint32_t last_line) {
  numbers_.emplace(path, static_cast<std::uint32_t>(modules_.size()));
  modules_.push_back(
      {std::move(path), std::string(class_name), std::string(file), first_line, last_line});
}

void Model::add_parameter(std::string_view name, std::uint64_t values) {
  const std::string& path = modules_.back().path;
  rows_[path].push_back(parameters_.size());
  const auto dots = std::count(path.begin(), path.end(), '.');
  parameters_.push_back(
      {path + "." + std::string(name), values * kFloatBytes, static_cast<std::size_t>(dots) + 1});
}

void Model::add_norm(const std::string& path) {
  add(path, "LayerNorm", library_file("torch/nn/modules/normalization.py"), 228, 231);
  add_parameter("weight", shape_.width);
  add_parameter("bias", shape_.width);
}

void Model::add_linear(const std::string& path, std::uint64_t inputs, std::uint64_t outputs,
                       bool has_bias) {
  add(path, "Linear", library_file("torch/nn/modules/linear.py"), 130, 134);
  add_parameter("weight", inputs * outputs);
  if (has_bias) add_parameter("bias", outputs);
}

void Model::add_dropout(const std::string& path) {
  add(path, "Dropout", library_file("torch/nn/modules/dropout.py"), 69, 73);
}

std::uint64_t Model::parameter_bytes() const {
  std::uint64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += parameter.size_bytes;
  return sum;
}

std::uint32_t Model::number(std::string_view path) const {
  const auto found = numbers_.find(path);
  GMP_CHECK(found != numbers_.end());
  return found->second;
}

std::vector<std::size_t> Model::rows_of(std::string_view path) const {
  const auto found = rows_.find(path);
  return found == rows_.end() ? std::vector<std::size_t>() : found->second;
}

void Model::describe(EventSink& sink, bool has_names) const {
  for (const Module& module : modules_) {
    ModuleLabel label;
    label.class_name = sink.add_string(module.class_name);
    label.number = number(module.path);
    label.is_root = module.path.empty();
    if (has_names) {
      label.path = sink.add_string(module.path);
      label.forward_file = sink.add_string(module.file);
      label.forward_line = module.first_line;
      label.forward_last_line = module.last_line;
    }
    sink.add_module(label);
  }
}

}  // namespace gpumemprof::long_run
