// Model: the modules and parameters of a GPT, as named_modules() and named_parameters() list them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "event/event_sink.h"

namespace gpumemprof::long_run {

inline constexpr std::uint64_t kFloatBytes = 4;
inline constexpr std::uint64_t kIndexBytes = 8;  // of a token in a batch

// Small enough that a leak of a few MiB matters, and deep enough for 3,000 events a step.
struct Shape {
  std::uint64_t layers = 12;
  std::uint64_t width = 384;
  std::uint64_t heads = 6;
  std::uint64_t vocabulary = 8'192;
  std::uint64_t positions = 1'024;
};

struct Parameter {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::size_t depth = 0;  // of its module
};

class Model {
 public:
  explicit Model(const Shape& shape);

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  [[nodiscard]] std::uint64_t parameter_bytes() const;
  // The module's number, by its path.
  [[nodiscard]] std::uint32_t number(std::string_view path) const;
  // A module's parameters, as rows.
  [[nodiscard]] std::vector<std::size_t> rows_of(std::string_view path) const;
  // Without names a module has only a number and a class.
  void describe(EventSink& sink, bool has_names) const;

 private:
  struct Module {
    std::string path;
    std::string class_name;
    std::string file;
    std::uint32_t first_line = 0;
    std::uint32_t last_line = 0;
  };

  void add(std::string path, std::string_view class_name, std::string_view file,
           std::uint32_t first_line, std::uint32_t last_line);
  void add_parameter(std::string_view name, std::uint64_t values);
  void add_layer(const std::string& path);
  void add_norm(const std::string& path);
  void add_linear(const std::string& path, std::uint64_t inputs, std::uint64_t outputs,
                  bool has_bias = true);
  void add_dropout(const std::string& path);

  Shape shape_;
  std::vector<Module> modules_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<Parameter> parameters_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> rows_;  // by the module's path
};

}  // namespace gpumemprof::long_run
