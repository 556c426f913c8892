// Trains a small network with libtorch, without Python, and records its memory:
//   train RECORDING [cpu|cuda]
#include <gpumemprof/torch.h>
#include <torch/torch.h>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  const std::string device_name = argc == 3 ? argv[2] : "cpu";
  if ((argc != 2 && argc != 3) || (device_name != "cpu" && device_name != "cuda")) {
    std::cerr << "Usage: train RECORDING [cpu|cuda]\n";
    return GPUMEMPROF_USAGE;
  }
  const torch::Device device(device_name);
  gpumemprof::RecordOptions options = gpumemprof::torch_options();
  options.memory = device.is_cuda() ? gpumemprof::Memory::cuda : gpumemprof::Memory::cpu;
  gpumemprof::Recorder recorder(argv[1], options);
  if (!recorder.ok()) std::cerr << recorder.error().sentence << "; it runs without\n";

  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(256, 1024), torch::nn::ReLU(),
                              torch::nn::Linear(1024, 10));
  model->to(device);
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  gpumemprof::TorchLabels labels;
  labels.add(*model);
  labels.add(optimizer);
  labels.apply();

  constexpr int kSteps = 4;
  constexpr int kBatch = 128;
  for (int step = 0; step < kSteps; ++step) {
    gpumemprof::step();
    const torch::Tensor inputs = torch::randn({kBatch, 256}, device);
    const torch::Tensor targets =
        torch::randint(10, {kBatch}, torch::dtype(torch::kLong).device(device));
    torch::Tensor loss;
    {
      const auto tag = gpumemprof::tag("forward");
      loss = torch::nn::functional::cross_entropy(model->forward(inputs), targets);
    }
    optimizer.zero_grad();
    loss.backward();
    {
      const gpumemprof::OptimizerStep marked;
      optimizer.step();
    }
    labels.apply();
  }

  const auto summary = recorder.stop();
  if (!summary) {
    std::cerr << summary.error().sentence << '\n';
    return summary.error().kind;
  }
  std::cout << summary->events << " events, peak " << summary->peak_requested_bytes << " bytes\n";
  return 0;
}
