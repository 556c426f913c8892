// A libtorch program that trains on a CUDA device and prints torch's own counters as JSON.
//
//   program MODE RECORDING [cuda|cpu] [STEPS]      RECORDING "-": nothing is recorded
//
// Nothing here needs CUDA's headers, so that it builds wherever libtorch is.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dirent.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if defined(WITHOUT_RECORDER)
#include "no_recorder.h"
#else
#include <gpumemprof/torch.h>
#endif

namespace {

constexpr int kWidth = 256;
constexpr int kLayers = 8;
constexpr int kBatch = 128;

struct LayerImpl : torch::nn::Module {
  LayerImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})))),
        wide(register_module("wide", torch::nn::Linear(kWidth, 4 * kWidth))),
        narrow(register_module("narrow", torch::nn::Linear(4 * kWidth, kWidth))) {}
  torch::Tensor forward(const torch::Tensor& inputs) {
    const torch::Tensor widened = wide(norm(inputs));  // the line of the widest activations
    return inputs + narrow(torch::gelu(widened));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear wide;
  torch::nn::Linear narrow;
};
TORCH_MODULE(Layer);

std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

class Training {
 public:
  explicit Training(torch::Device device) : device_(device) {
    for (int layer = 0; layer < kLayers; ++layer) model_->push_back(Layer());
    model_->push_back(torch::nn::Linear(kWidth, 10));
    model_->to(device);
    optimizer_ = std::make_unique<torch::optim::AdamW>(model_->parameters(), 1e-3);
    labels_.add(*model_);
    labels_.add(*optimizer_);
    labels_.apply();
  }
  void step() {
    const torch::Tensor inputs = torch::randn({kBatch, kWidth}, device_);
    const torch::Tensor targets =
        torch::randint(10, {kBatch}, torch::TensorOptions().dtype(torch::kLong).device(device_));
    torch::Tensor loss;
    {
      const auto tag = gpumemprof::tag("forward");
      loss = torch::nn::functional::cross_entropy(model_->forward(inputs), targets);
    }
    optimizer_->zero_grad();
    loss.backward();
    {
      const gpumemprof::OptimizerStep marked;
      optimizer_->step();
    }
    label();
  }
  // How long labels took since the last time this was asked.
  std::int64_t take_labels_ns() { return std::exchange(labels_ns_, 0); }

 private:
  void label() {
    const std::int64_t began = now_ns(CLOCK_MONOTONIC);
    labels_.apply();
    labels_ns_ += now_ns(CLOCK_MONOTONIC) - began;
  }

  torch::Device device_;
  torch::nn::Sequential model_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  gpumemprof::TorchLabels labels_;
  std::int64_t labels_ns_ = 0;
};

void synchronize(torch::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

struct Run {
  std::string recording;
  torch::Device device = torch::kCPU;
  int steps = 0;
  bool has_stacks = true;
};

std::unique_ptr<gpumemprof::Recorder> record(const Run& run) {
  if (run.recording == "-") return nullptr;
  gpumemprof::RecordOptions options = gpumemprof::torch_options();
  options.overwrites = true;
  options.stacks = run.has_stacks;
  options.memory = run.device.is_cuda() ? gpumemprof::Memory::any : gpumemprof::Memory::cpu;
  auto recorder = std::make_unique<gpumemprof::Recorder>(run.recording, options);
  if (recorder->ok()) return recorder;
  std::cerr << recorder->error().sentence << '\n';
  return nullptr;  // it runs without
}

void print(const std::map<std::string, std::int64_t>& figures) {
  std::cout << '{';
  const char* comma = "";
  for (const auto& [name, value] : figures) {
    std::cout << comma << '"' << name << "\": " << value;
    comma = ", ";
  }
  std::cout << '}' << std::endl;
}

std::map<std::string, std::int64_t> counters(torch::Device device) {
  std::map<std::string, std::int64_t> found;
  if (!device.is_cuda()) return found;
  const auto stats = c10::getDeviceAllocator(c10::kCUDA)->getDeviceStats(0);
  constexpr std::size_t kAll = 0;  // of the pools
  const auto add = [&](const std::string& name, const c10::CachingAllocator::StatArray& stat) {
    found[name + ".current"] = stat[kAll].current;
    found[name + ".peak"] = stat[kAll].peak;
  };
  add("allocated_bytes", stats.allocated_bytes);
  add("reserved_bytes", stats.reserved_bytes);
  add("active_bytes", stats.active_bytes);
  add("requested_bytes", stats.requested_bytes);
  found["allocations"] = stats.allocation[kAll].allocated;
  found["num_ooms"] = stats.num_ooms;
  found["num_alloc_retries"] = stats.num_alloc_retries;
  return found;
}

// Ends the recording at a moment when nothing changes, and prints what torch counted until then.
int finish(const Run& run, gpumemprof::Recorder* recorder) {
  synchronize(run.device);
  auto figures = counters(run.device);
  if (recorder != nullptr) {
    const auto summary = recorder->stop();
    if (!summary) {
      std::cerr << summary.error().sentence << '\n';
      return summary.error().kind;
    }
    figures["events"] = static_cast<std::int64_t>(summary->events);
    figures["lost_events"] = static_cast<std::int64_t>(summary->lost_events);
  }
  print(figures);
  return 0;
}

void train(const Run& run) {
  Training training(run.device);
  for (int step = 0; step < run.steps; ++step) {
    gpumemprof::step();
    training.step();
  }
  synchronize(run.device);
}

int plain(const Run& run) {
  const auto recorder = record(run);
  Training training(run.device);
  for (int step = 0; step < run.steps; ++step) {
    gpumemprof::step();
    training.step();
  }
  return finish(run, recorder.get());
}

int without_stacks(Run run) {
  run.has_stacks = false;
  return plain(run);
}

// CUDA is in use, memory is live and cached when the recorder starts.
int late(const Run& run) {
  Training training(run.device);
  for (int step = 0; step < 3; ++step) training.step();
  synchronize(run.device);
  if (run.device.is_cuda()) c10::getDeviceAllocator(c10::kCUDA)->resetPeakStats(0);
  const auto recorder = record(run);
  for (int step = 0; step < run.steps; ++step) {
    gpumemprof::step();
    training.step();
  }
  return finish(run, recorder.get());
}

// CUDA is initialised, but nothing is allocated.
int initialised(const Run& run) {
  if (run.device.is_cuda()) at::globalContext().lazyInitDevice(c10::kCUDA);
  return plain(run);
}

int out_of_memory(const Run& run) {
  const auto recorder = record(run);
  train(run);
  constexpr std::int64_t kChunk = std::int64_t{8} << 30;
  {
    std::vector<torch::Tensor> chunks;
    try {
      for (int chunk = 0; chunk < 1000; ++chunk)
        chunks.push_back(torch::empty({kChunk}, torch::dtype(torch::kByte).device(run.device)));
    } catch (const c10::OutOfMemoryError&) {
    }
  }
  train(run);
  return finish(run, recorder.get());
}

int streams(const Run& run) {
  const auto recorder = record(run);
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  torch::Tensor kept = torch::zeros({1 << 20}, run.device);
  for (int step = 0; step < run.steps; ++step) {
    gpumemprof::step();
    const c10::Stream side = cuda.getStreamFromGlobalPool(run.device, step % 2 == 0);
    {
      const c10::StreamGuard guard(side);
      const torch::Tensor inside = torch::randn({1000 + step * 977, 512}, run.device);
      kept = kept + inside.sum();
    }
    torch::Tensor shared = torch::randn({4096, 256 + step}, run.device);
    shared.record_stream(side);  // its free waits for the other stream
    kept = kept + shared.mean();
  }
  return finish(run, recorder.get());
}

int threads(const Run& run) {
  const auto recorder = record(run);
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 4; ++worker) workers.emplace_back([&] { train(run); });
  for (std::thread& worker : workers) worker.join();
  return finish(run, recorder.get());
}

// Pieces of all sizes, and memory given back in between.
int pieces(const Run& run) {
  const auto recorder = record(run);
  std::vector<torch::Tensor> live;
  std::uint64_t state = 1;
  const auto next = [&](std::uint64_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int64_t>((state >> 33U) % below);
  };
  for (int step = 0; step < run.steps * 200; ++step) {
    if (step % 200 == 0) gpumemprof::step();
    if (live.size() > 40 || (!live.empty() && next(3) == 0)) {
      live.erase(live.begin() + next(live.size()));
    } else {
      const std::int64_t bytes = std::int64_t{1} << next(27);
      live.push_back(
          torch::empty({bytes + next(4096)}, torch::dtype(torch::kByte).device(run.device)));
    }
    if (step % 500 == 499) c10::getDeviceAllocator(c10::kCUDA)->emptyCache();
  }
  return finish(run, recorder.get());
}

void print_and(const Run& run, const std::function<void()>& end) {
  synchronize(run.device);
  print(counters(run.device));
  end();
}

int leave_with_exit(const Run& run) {
  const auto recorder = record(run);
  train(run);
  print_and(run, [] { std::exit(0); });
  return 1;
}

int leave_at_once(const Run& run) {
  const auto recorder = record(run);
  train(run);
  print_and(run, [] { ::_exit(0); });
  return 1;
}

int killed(const Run& run) {
  const auto recorder = record(run);
  train(run);
  print_and(run, [] {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // what is written once a second is
    std::raise(SIGKILL);
  });
  return 1;
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// The processor time of every thread but the recorder's own: what training takes.
std::int64_t training_cpu_ns() {
  std::int64_t sum = 0;
  DIR* threads = ::opendir("/proc/self/task");
  if (threads == nullptr) return 0;
  while (const dirent* entry = ::readdir(threads)) {
    const int thread = std::atoi(entry->d_name);
    if (thread == 0) continue;
    const std::string folder = std::string("/proc/self/task/") + entry->d_name;
    if (first_line(folder + "/comm").rfind("gpumemprof", 0) == 0) continue;
    // The kernel's number of a thread's clock.
    sum += now_ns(static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3U) | 6U));
  }
  ::closedir(threads);
  return sum;
}

// Takes commands, one on a line: "steps N", "long N", "pairs N", "record FILE 0|1" (with stacks),
// "stop", "end". Each answers with a line of JSON.
int serve(Run run) {
  Training training(run.device);
  std::unique_ptr<gpumemprof::Recorder> recorder = record(run);
  std::string line;
  print({{"ready", 1}});
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "steps" || command == "long") {
      int count = 0;
      words >> count;
      const std::int64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
      const std::int64_t training_cpu = training_cpu_ns();
      training.take_labels_ns();
      const std::int64_t wall = now_ns(CLOCK_MONOTONIC);
      std::vector<std::int64_t> steps_ns;
      for (int step = 0; step < count; ++step) {
        const std::int64_t began = now_ns(CLOCK_MONOTONIC);
        gpumemprof::step();
        training.step();
        steps_ns.push_back(now_ns(CLOCK_MONOTONIC) - began);
      }
      synchronize(run.device);
      const std::int64_t wall_ns = now_ns(CLOCK_MONOTONIC) - wall;
      const std::int64_t training_cpu_now = training_cpu_ns();
      // Until there is nothing left to write.
      if (command == "long") std::this_thread::sleep_for(std::chrono::milliseconds(60));
      const auto middle = steps_ns.begin() + static_cast<std::ptrdiff_t>(steps_ns.size() / 2);
      std::nth_element(steps_ns.begin(), middle, steps_ns.end());
      print({{"wall_ns", wall_ns},
             {"median_step_ns", steps_ns.empty() ? 0 : *middle},
             {"training_cpu_ns", training_cpu_now - training_cpu},
             {"labels_ns", training.take_labels_ns()},
             {"cpu_ns", now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu}});
    } else if (command == "record") {
      int stacks = 1;
      words >> run.recording >> stacks;
      run.has_stacks = stacks != 0;
      recorder = record(run);
      print({{"ok", recorder != nullptr ? 1 : 0}});
    } else if (command == "pairs") {  // of a request and a free, with nothing in between
      int count = 0;
      words >> count;
      const std::int64_t wall = now_ns(CLOCK_MONOTONIC);
      for (int pair = 0; pair < count; ++pair)
        torch::empty({1000}, torch::TensorOptions().device(run.device));
      print({{"wall_ns", now_ns(CLOCK_MONOTONIC) - wall}});
    } else if (command == "stop") {
      std::int64_t events = -1;
      if (recorder != nullptr) {
        if (const auto summary = recorder->stop())
          events = static_cast<std::int64_t>(summary->events);
      }
      recorder.reset();
      print({{"events", events}});
    } else {
      break;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<int(const Run&)>> modes = {
      {"plain", plain},
      {"without_stacks", without_stacks},
      {"late", late},
      {"initialised", initialised},
      {"out_of_memory", out_of_memory},
      {"streams", streams},
      {"threads", threads},
      {"pieces", pieces},
      {"exit", leave_with_exit},
      {"_exit", leave_at_once},
      {"killed", killed},
      {"serve", serve},
  };
  const auto mode = modes.find(argc < 3 ? "" : argv[1]);
  if (mode == modes.end()) {
    std::cerr << "Usage: program MODE RECORDING [cuda|cpu] [STEPS]; modes:";
    for (const auto& [name, run] : modes) std::cerr << ' ' << name;
    std::cerr << '\n';
    return GPUMEMPROF_USAGE;
  }
  Run run;
  run.recording = argv[2];
  run.device = argc > 3 && std::string(argv[3]) == "cpu" ? torch::Device(torch::kCPU)
                                                         : torch::Device(torch::kCUDA, 0);
  run.steps = argc > 4 ? std::atoi(argv[4]) : 20;
  torch::manual_seed(0);
  return mode->second(run);
}
