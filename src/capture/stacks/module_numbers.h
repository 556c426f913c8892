// ModuleNumbers: the drain's view of the program's modules: which number the module at an address
// has, and its name.
//
// A module is known by its address for as long as it lives. Those that Python has described have a
// number for each path, so that a model that is created again and again uses no more numbers than
// one model. Others have a number for each address and class, and may be named later. Numbers are
// never reused. For the drain thread alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/flat_map.h"
#include "capture/record.h"
#include "event/event.h"

namespace gpumemprof::capture {

struct NumberedModule {
  std::string path;
  std::string class_name;
  bool is_named = false;
  bool is_root = false;
};

class ModuleNumbers {
 public:
  void take(const ModuleRecord& record);
  // kNoModule if there are too many.
  std::uint32_t number_at(std::uint64_t address);
  // Names the module at this address; returns its number.
  std::uint32_t describe(std::uint64_t address, const NumberedModule& module);
  // The module at this address is about to be destroyed.
  void forget(std::uint64_t address);
  // No recording is open: modules destroyed from now on are not reported.
  void forget_all();

  [[nodiscard]] const NumberedModule& module(std::uint32_t number) const {
    return modules_[number];
  }

 private:
  std::uint32_t add(NumberedModule module);

  std::vector<NumberedModule> modules_;           // by number
  FlatMap<std::uint32_t> numbers_;                // by address
  std::map<std::uint64_t, std::string> classes_;  // by address, including destroyed ones
  std::map<std::pair<std::string, std::string>, std::uint32_t> numbers_by_path_;  // path, class
  std::map<std::pair<std::uint64_t, std::string>, std::uint32_t> unnamed_;        // address, class
};

}  // namespace gpumemprof::capture
