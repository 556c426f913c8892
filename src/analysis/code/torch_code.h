// What a frame of torch's own code, or of a library around it, means: the one table from which all
// questions about frames are answered. User functions are not in it, so that any script is read the
// same way.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumemprof {

// The part of a program that a frame belongs to.
enum class FrameRole : std::uint8_t {
  plain,
  root,  // where the stack of a Python thread begins
  constructor,
  make_parameters,
  make_buckets,
  workspace,
  communicate,
  load_data,
  forward,
  module_call,  // torch's own: certainly a forward, whatever else has that name
  backward,
  named_backward,  // named so, but not torch's own: a custom function's, or a wrapper
  recompute,
  optimizer_step,
  optimizer_other,
  zero_grad,
};

// The kind of operation, as far as mixed precision is concerned: autocast runs some in half
// precision, some in fp32, and lets the rest follow their inputs.
enum class OpKind : std::uint8_t {
  unknown,    // a line of user code: any operation
  matmul,     // linear layers, convolutions, recurrent layers: half precision
  attention,  // half precision, on inputs that already exist
  fp32,       // normalization
  softmax,    // fp32, and saves its result instead of its input
  loss,
  embedding,  // looked up in the weights: their precision
  pool,       // follows its input, and may keep 64-bit indices
  follow,     // activation functions, dropout, batch norm: same as the input
};

// A library that takes memory outside the pool.
enum class CudaLibrary : std::uint8_t { none, cudnn, nccl };

struct FrameMeaning {
  FrameRole role = FrameRole::plain;
  OpKind op = OpKind::unknown;
  bool has_callers_op = false;  // torch's own machinery: the caller says which operation it is
  CudaLibrary library = CudaLibrary::none;
};

// name: qualified ("Linear.forward", our own recordings) or not ("forward", a snapshot).
FrameMeaning meaning_of_frame(std::string_view file, std::string_view name);

// Installed packages, the standard library, generated code and C++ frames: not user code.
bool is_library_file(std::string_view file);

// A source or module of the user's own C++ code, which is known by its whole path.
inline bool is_users_native(std::string_view file) {
  return file.starts_with('/') && !file.ends_with(".py") && !is_library_file(file);
}

// "Linear.forward" → "forward"
std::string_view plain_name(std::string_view name);

// `part` is a path such as "torch/optim/": it may be anywhere in the file's path, after a
// separator.
bool lies_in(std::string_view file, std::string_view part);

}  // namespace gpumemprof
