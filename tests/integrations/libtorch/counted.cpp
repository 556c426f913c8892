// Trains with libtorch and records itself, while libtorch's own reports of CPU memory are added up independently.
// Prints the peak that they give.
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gpumemprof/torch.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>

namespace {

class Counter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, std::int64_t size, std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/, c10::Device /*device*/) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_ += size;
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t peak() const { return peak_; }

 private:
  std::mutex mutex_;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

struct Network : torch::nn::Module {
  Network() {
    first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3)));
    norm = register_module("norm", torch::nn::BatchNorm2d(16));
    last = register_module("last", torch::nn::Linear(16 * 30 * 30, 10));
  }
  torch::Tensor forward(const torch::Tensor& images) {
    return last(torch::relu(norm(first(images))).flatten(1));
  }
  torch::nn::Conv2d first = nullptr;
  torch::nn::BatchNorm2d norm = nullptr;
  torch::nn::Linear last = nullptr;
};

void train() {
  auto model = std::make_shared<Network>();
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  gpumemprof::TorchLabels labels;
  labels.add(*model);
  labels.add(optimizer);
  labels.apply();
  for (int step = 0; step < 3; ++step) {
    gpumemprof::step();
    const torch::Tensor images = torch::randn({8, 3, 32, 32});
    torch::Tensor loss;
    {
      const auto tag = gpumemprof::tag("forward");
      loss = model->forward(images).square().mean();
    }
    optimizer.zero_grad();
    loss.backward();
    labels.apply();
    {
      const gpumemprof::OptimizerStep marked;
      optimizer.step();
    }
    labels.apply();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return GPUMEMPROF_USAGE;
  const auto counter = std::make_shared<Counter>();
  gpumemprof::RecordOptions options = gpumemprof::torch_options();
  options.overwrites = true;
  gpumemprof::Recorder recorder(argv[1], options);
  if (!recorder.ok()) {
    std::cerr << recorder.error().sentence << '\n';
    return recorder.error().kind;
  }
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    train();
  }
  const auto summary = recorder.stop();
  if (!summary) {
    std::cerr << summary.error().sentence << '\n';
    return summary.error().kind;
  }
  std::cout << counter->peak() << ' ' << summary->lost_events << '\n';
  return 0;
}
