#include "analysis/code/torch_code.h"

#include <algorithm>
#include <array>
#include <span>

#include "event/native_module.h"

namespace gpumemprof {
namespace {

// Up to this many texts; unused ones are empty.
using Texts = std::array<std::string_view, 16>;

struct FileRule {
  enum class How : std::uint8_t { any, inside, ends, has, optimizer };
  How how = How::any;
  Texts texts{};
};

struct NameRule {
  enum class How : std::uint8_t { any, is, is_not, starts, ends, has, declared_in };
  How how = How::any;
  Texts texts{};
};

// The first row that matches decides.
template <typename Meaning>
struct Row {
  FileRule file;
  NameRule name;
  Meaning meaning{};
};

template <typename... Text>
constexpr FileRule inside(Text... paths) {
  return {FileRule::How::inside, {paths...}};
}
template <typename... Text>
constexpr FileRule file_ends(Text... endings) {
  return {FileRule::How::ends, {endings...}};
}
template <typename... Text>
constexpr FileRule file_has(Text... parts) {
  return {FileRule::How::has, {parts...}};
}
template <typename... Text>
constexpr NameRule is(Text... names) {
  return {NameRule::How::is, {names...}};
}
template <typename... Text>
constexpr NameRule starts(Text... beginnings) {
  return {NameRule::How::starts, {beginnings...}};
}
template <typename... Text>
constexpr NameRule ends(Text... endings) {
  return {NameRule::How::ends, {endings...}};
}
template <typename... Text>
constexpr NameRule has(Text... parts) {
  return {NameRule::How::has, {parts...}};
}
template <typename... Text>
constexpr NameRule declared_in(Text... scopes) {
  return {NameRule::How::declared_in, {scopes...}};
}
constexpr FileRule kAnyFile{};
constexpr FileRule kOptimizer{FileRule::How::optimizer};
constexpr NameRule kAnyName{};
constexpr NameRule is_not(std::string_view name) { return {NameRule::How::is_not, {name}}; }

// --- The table ---

constexpr std::array<std::string_view, 7> kLibraryFolders = {
    "/site-packages/", "/dist-packages/", "/lib/python3", "/torchinductor_",
    "/inductor/",      "/torch/csrc/",    "/aten/"};
constexpr std::array<std::string_view, 11> kNativeEndings = {
    ".cpp", ".cc", ".cxx", ".c", ".cu", ".h", ".hpp", ".cuh", ".hxx", ".inl", ".so"};
// Where the sources of torch, Python, CUDA and the system's libraries are, as their debug
// information says: none of them is a place of the user's.
constexpr std::array<std::string_view, 7> kForeignSources = {
    "/usr/include/",         "/usr/src/",    "/usr/local/src/", "/usr/local/include/", "/pytorch/",
    "/opt/conda/conda-bld/", "/usr/lib/gcc/"};
constexpr std::array<std::string_view, 4> kForeignParts = {"/c10/", "/ATen/", "/include/c++/",
                                                           "/torch/include/"};

// Native frames, by their full names, if a recording has them. A full name holds the types of the
// parameters, and a function that is given an optimizer is not the optimizer.
constexpr auto kNativeRoles = std::to_array<Row<FrameRole>>({
    {kAnyFile, has("torch::autograd::Engine::", "torch::autograd::python::PythonEngine::"),
     FrameRole::backward},
    {kAnyFile, has("setWorkspaceForHandle", "CUDABlasLtWorkspace", "::Workspace::Workspace("),
     FrameRole::workspace},
    {kAnyFile, has("torch::optim::Optimizer::zero_grad("), FrameRole::zero_grad},
    // Of torch::optim::Optimizer, and of every class that derives from it.
    {kAnyFile, has("::step(std::function<at::Tensor ()>)"), FrameRole::optimizer_step},
    {kAnyFile,
     declared_in("torch::optim::LRScheduler::", "torch::optim::StepLR::",
                 "torch::optim::ReduceLROnPlateauScheduler::"),
     FrameRole::plain},
    {kAnyFile, declared_in("torch::optim::"), FrameRole::optimizer_other},
    {kAnyFile, has("::forward("), FrameRole::forward},
});

constexpr NameRule kLoaders = is("from_pretrained", "load_state_dict", "_load_from_state_dict",
                                 "_load_state_dict_into_model", "_load_state_dict_into_meta_model");
constexpr FileRule kFsdp = inside("torch/distributed/fsdp/", "torch/distributed/_composable/");
constexpr FileRule kDdp = file_ends("torch/nn/parallel/distributed.py");

constexpr std::array kRoles = std::to_array<Row<FrameRole>>({
    {kAnyFile, is("<module>", "_bootstrap", "_run_code", "_run_module_as_main"), FrameRole::root},
    {kOptimizer, is("zero_grad"), FrameRole::zero_grad},
    // Every optimizer's step() is wrapped by its base class, no matter who wrote it.
    {kOptimizer, is("step", "profile_hook_step", "wrapper"), FrameRole::optimizer_step},
    {kOptimizer, kAnyName, FrameRole::optimizer_other},
    {kAnyFile, is("zero_grad"), FrameRole::zero_grad},
    {file_ends("torch/utils/checkpoint.py"), is("unpack_hook", "recompute_fn"),
     FrameRole::recompute},
    {inside("torch/"), is("backward"), FrameRole::backward},
    {file_ends("torch/autograd/__init__.py"), is("grad", "_make_grads"), FrameRole::backward},
    {kAnyFile, is("_engine_run_backward"), FrameRole::backward},
    {kAnyFile, is("backward"), FrameRole::named_backward},
    {file_ends("torch/autograd/function.py"), is("apply"), FrameRole::named_backward},
    // Modules built, loaded, moved or converted.
    {inside("torch/nn/modules/"),
     is("_apply", "convert", "to", "cuda", "to_empty", "__init__", "reset_parameters", "half",
        "flatten_parameters", "_flatten_parameters", "initialize_parameters"),
     FrameRole::make_parameters},
    {file_ends("torch/nn/parameter.py", "torch/nn/init.py"), kAnyName, FrameRole::make_parameters},
    {kFsdp, is("__init__", "fully_shard"), FrameRole::make_parameters},
    {kFsdp, starts("_init_"), FrameRole::make_parameters},
    {kFsdp, kLoaders, FrameRole::plain},  // into parameters that exist
    {file_ends("transformers/core_model_loading.py", "accelerate/utils/modeling.py"), kAnyName,
     FrameRole::make_parameters},
    {kAnyFile, kLoaders, FrameRole::make_parameters},
    {file_ends("torch/distributed/distributed_c10d.py"), kAnyName, FrameRole::communicate},
    {kDdp, has("broadcast"), FrameRole::communicate},
    {kDdp, is_not("forward"), FrameRole::make_buckets},
    {file_ends("torch/nn/modules/module.py"),
     is("_call_impl", "_wrapped_call_impl", "_slow_forward"), FrameRole::module_call},
    {file_ends("torch/nn/functional.py"), kAnyName, FrameRole::module_call},
    {kAnyFile, is("forward"), FrameRole::forward},
    {inside("torch/utils/data/"), kAnyName, FrameRole::load_data},
    {kAnyFile, is("send_to_device", "transfer_batch_to_device", "_prepare_inputs"),
     FrameRole::load_data},
    {kAnyFile, is("__init__"), FrameRole::constructor},
});

struct Operation {
  OpKind kind = OpKind::unknown;
  bool is_callers = false;
};
constexpr Operation kCallers{OpKind::unknown, true};
constexpr FileRule kFunctions = file_ends("torch/nn/functional.py");
constexpr FileRule kModules = file_has("torch/nn/modules/");

constexpr std::array kOperations = std::to_array<Row<Operation>>({
    {kFunctions, is("softmax", "log_softmax", "softmin"), {OpKind::softmax}},
    {kFunctions,
     is("layer_norm", "group_norm", "normalize", "cosine_similarity", "local_response_norm",
        "softplus", "rms_norm"),
     {OpKind::fp32}},
    {kFunctions, is("cross_entropy", "ctc_loss", "kl_div"), {OpKind::loss}},
    {kFunctions, ends("_loss"), {OpKind::loss}},
    {kFunctions, starts("binary_cross_entropy"), {OpKind::loss}},
    {kFunctions, starts("embedding"), {OpKind::embedding}},
    {kFunctions,
     is("linear", "bilinear", "_in_projection_packed", "_in_projection"),
     {OpKind::matmul}},
    {kFunctions, starts("conv"), {OpKind::matmul}},
    {kFunctions,
     is("multi_head_attention_forward", "scaled_dot_product_attention"),
     {OpKind::attention}},
    {kFunctions, has("pool"), {OpKind::pool}},
    {kFunctions, kAnyName, {OpKind::follow}},
    // Layers that call no function of torch.nn.functional.
    {file_ends("torch/nn/modules/module.py", "torch/nn/modules/container.py"), kAnyName, kCallers},
    {file_ends("torch/nn/modules/linear.py", "torch/nn/modules/conv.py", "torch/nn/modules/rnn.py"),
     kAnyName,
     {OpKind::matmul}},
    {file_ends("torch/nn/modules/normalization.py"), kAnyName, {OpKind::fp32}},
    {file_ends("torch/nn/modules/sparse.py"), kAnyName, {OpKind::embedding}},
    {file_ends("torch/nn/modules/loss.py"), kAnyName, {OpKind::loss}},
    {file_ends("torch/nn/modules/pooling.py"), kAnyName, {OpKind::pool}},
    {kModules, kAnyName, {OpKind::follow}},
    {file_has("/torch/"), kAnyName, kCallers},
    {kAnyFile, has("attention"), {OpKind::attention}},
});

constexpr std::array kLibraries = std::to_array<Row<CudaLibrary>>({
    {file_has("torch/distributed/", "torch/nn/parallel/distributed"), kAnyName, CudaLibrary::nccl},
    {file_has("torch/nn/modules/conv", "torch/nn/modules/batchnorm", "torch/nn/modules/rnn"),
     kAnyName, CudaLibrary::cudnn},
    {file_has("torch/nn/"), has("conv"), CudaLibrary::cudnn},
});

// --- How it is read ---

bool has_part(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <typename Test>
bool any_of(const Texts& texts, const Test& test) {
  return std::ranges::any_of(texts,
                             [&](std::string_view text) { return !text.empty() && test(text); });
}

// Of torch or another library; what schedules learning rates or averages weights is none.
bool is_optimizer_file(std::string_view file) {
  if (lies_in(file, "torch/optim/"))
    return !file.ends_with("lr_scheduler.py") && !file.ends_with("swa_utils.py");
  return is_library_file(file) && (lies_in(file, "optim/") || lies_in(file, "optimizers/")) &&
         !lies_in(file, "torch/distributed/");
}

bool matches(const FileRule& rule, std::string_view file) {
  switch (rule.how) {
    case FileRule::How::inside:
      return any_of(rule.texts, [&](std::string_view path) { return lies_in(file, path); });
    case FileRule::How::ends:
      return any_of(rule.texts, [&](std::string_view ending) { return file.ends_with(ending); });
    case FileRule::How::has:
      return any_of(rule.texts, [&](std::string_view part) { return has_part(file, part); });
    case FileRule::How::optimizer:
      return is_optimizer_file(file);
    case FileRule::How::any:
      break;
  }
  return true;
}

// Whether the full name of a function begins with its scope. The name of an instance of a template
// begins with what it returns: "torch::optim::Adam made_for<Net>(Net&)" is declared elsewhere.
bool is_declared_in(std::string_view scope, std::string_view name) {
  if (!name.starts_with(scope)) return false;
  const std::size_t end = name.find_first_of(" (<&*", scope.size());
  return end == std::string_view::npos || name[end] == '(' || name[end] == '<';
}

bool matches(const NameRule& rule, std::string_view name) {
  switch (rule.how) {
    case NameRule::How::is:
      return any_of(rule.texts, [&](std::string_view text) { return name == text; });
    case NameRule::How::is_not:
      return name != rule.texts.front();
    case NameRule::How::starts:
      return any_of(rule.texts, [&](std::string_view text) { return name.starts_with(text); });
    case NameRule::How::ends:
      return any_of(rule.texts, [&](std::string_view text) { return name.ends_with(text); });
    case NameRule::How::has:
      return any_of(rule.texts, [&](std::string_view text) { return has_part(name, text); });
    case NameRule::How::declared_in:
      return any_of(rule.texts,
                    [&](std::string_view scope) { return is_declared_in(scope, name); });
    case NameRule::How::any:
      break;
  }
  return true;
}

template <typename Meaning>
Meaning find(std::span<const Row<Meaning>> rows, std::string_view file, std::string_view name) {
  for (const Row<Meaning>& row : rows) {
    // Names are compared faster than paths.
    if (matches(row.name, name) && matches(row.file, file)) return row.meaning;
  }
  return {};
}

}  // namespace

FrameMeaning meaning_of_frame(std::string_view file, std::string_view name) {
  const std::string_view plain = plain_name(name);
  FrameMeaning meaning;
  meaning.role = find<FrameRole>(kNativeRoles, file, name);
  if (meaning.role == FrameRole::plain) meaning.role = find<FrameRole>(kRoles, file, plain);
  const Operation operation = find<Operation>(kOperations, file, plain);
  meaning.op = operation.kind;
  meaning.has_callers_op = operation.is_callers;
  meaning.library = find<CudaLibrary>(kLibraries, file, name);
  return meaning;
}

bool is_library_file(std::string_view file) {
  if (file.empty() || file.front() == '<' || file == "??") return true;
  const auto lies_there = [&](std::string_view part) { return has_part(file, part); };
  if (std::ranges::any_of(kLibraryFolders, lies_there)) return true;
  if (file.ends_with(".py")) return false;
  const auto begins = [&](std::string_view folder) { return file.starts_with(folder); };
  const auto ends = [&](std::string_view ending) { return file.ends_with(ending); };
  if (std::ranges::any_of(kForeignSources, begins) ||
      std::ranges::any_of(kForeignParts, lies_there))
    return true;
  // A source whose folder is not known is Python's, or the C library's.
  if (std::ranges::any_of(kNativeEndings, ends) && !file.starts_with('/')) return true;
  return is_library_module(file);
}

std::string_view plain_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool lies_in(std::string_view file, std::string_view part) {
  for (std::size_t at = file.find(part); at != std::string_view::npos;
       at = file.find(part, at + 1)) {
    if (at == 0 || file[at - 1] == '/' || file[at - 1] == '\\') return true;
  }
  return false;
}

}  // namespace gpumemprof
