#include "capture/stacks/module_numbers.h"

#include <utility>

namespace gpumemprof::capture {

void ModuleNumbers::take(const ModuleRecord& record) {
  std::string name(record.class_name.data(), record.length);
  std::string& known = classes_[record.address];
  if (known == name) return;
  known = std::move(name);
  // Either the class of this module was changed, or another module has its address now.
  const std::uint32_t* number = numbers_.find(record.address);
  if (number != nullptr && !modules_[*number].is_named) numbers_.erase(record.address);
}

std::uint32_t ModuleNumbers::number_at(std::uint64_t address) {
  if (const std::uint32_t* number = numbers_.find(address)) return *number;
  const std::string& class_name = classes_[address];
  const auto known = unnamed_.find({address, class_name});
  const std::uint32_t number =
      known != unnamed_.end() ? known->second : add({"", class_name, false, false});
  if (number == kNoModule) return number;
  if (known == unnamed_.end()) unnamed_.emplace(std::pair(address, class_name), number);
  numbers_.insert_or_assign(address, number);
  return number;
}

std::uint32_t ModuleNumbers::describe(std::uint64_t address, const NumberedModule& module) {
  const std::uint32_t* met = numbers_.find(address);
  const bool is_unnamed = met != nullptr && !modules_[*met].is_named;
  const auto key = std::pair(module.path, module.class_name);
  const auto known = numbers_by_path_.find(key);
  std::uint32_t number = kNoModule;
  if (is_unnamed) {
    // Events already use this number.
    number = *met;
    unnamed_.erase({address, classes_[address]});
    modules_[number] = module;
  } else {
    number = known != numbers_by_path_.end() ? known->second : add(module);
  }
  if (number == kNoModule) return number;
  modules_[number].is_root = module.is_root;
  if (known == numbers_by_path_.end()) numbers_by_path_.emplace(key, number);
  numbers_.insert_or_assign(address, number);
  return number;
}

void ModuleNumbers::forget(std::uint64_t address) { numbers_.erase(address); }

void ModuleNumbers::forget_all() {
  numbers_.clear();
  unnamed_.clear();
}

std::uint32_t ModuleNumbers::add(NumberedModule module) {
  if (modules_.size() >= kMaxModules) return kNoModule;
  modules_.push_back(std::move(module));
  return static_cast<std::uint32_t>(modules_.size() - 1);
}

}  // namespace gpumemprof::capture
