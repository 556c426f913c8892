#include "analysis/modules/module_index.h"

#include <algorithm>

namespace gpumemprof {

ModuleIndex::ModuleIndex(const Store& store) : store_(store) {
  for (const ModuleLabel& module : store.modules()) {
    // The last meaning of a number wins: a module may be named after it was first seen.
    if (module.number != kNoModule && store.module(module.number) != &module) continue;
    const bool is_named = !module.path.is_none();
    const std::string_view path = store.text(module.path);
    const auto fresh = static_cast<std::uint32_t>(entries_.size());
    auto& known = is_named ? by_path_ : by_class_;
    const std::uint32_t entry =
        known.try_emplace(is_named ? path : store.text(module.class_name), fresh).first->second;
    if (entry == fresh)
      entries_.push_back({path.empty() ? module.class_name : module.path, module.path, false});
    entries_[entry].is_root |= module.is_root;
    if (module.number == kNoModule) continue;
    if (entry_of_number_.size() <= module.number)
      entry_of_number_.resize(module.number + std::size_t{1}, kNoModule);
    entry_of_number_[module.number] = entry;
  }
}

std::string ModuleIndex::layer_name(std::uint32_t entry) const {
  return layer_name_of(name(entry));
}

std::string layer_name_of(std::string_view name) {
  std::string_view rest = name;
  std::string result;
  for (;;) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool is_number = !part.empty() && std::ranges::all_of(part, [](char digit) {
      return digit >= '0' && digit <= '9';
    });
    result += is_number ? "*" : part;
    if (dot == rest.size()) return result;
    result += '.';
    rest.remove_prefix(dot + 1);
  }
}

std::uint32_t ModuleIndex::at_path(std::string_view path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? kNoModule : found->second;
}

std::uint32_t ModuleIndex::around(std::uint32_t entry) const {
  const Entry& module = entries_[entry];
  if (module.is_root || module.path.is_none()) return kNoModule;
  std::string_view path = store_.text(module.path);
  while (!path.empty()) {
    const std::size_t dot = path.rfind('.');
    path = path.substr(0, dot == std::string_view::npos ? 0 : dot);
    if (const std::uint32_t found = at_path(path); found != kNoModule) return found;
  }
  return kNoModule;
}

std::uint32_t ModuleIndex::of_event(const DeviceRecord& record, std::uint32_t event) const {
  if (event >= record.events.module.size()) return kNoModule;
  const std::uint32_t number = record.events.module[event];
  return number < entry_of_number_.size() ? entry_of_number_[number] : kNoModule;
}

std::uint32_t ModuleIndex::of(const DeviceRecord& record, const AllocationLabels& labels,
                              std::size_t allocation) {
  if (allocation < labels.name.size() && !labels.name[allocation].is_none()) {
    const MemorySource source = labels.source[allocation];
    const bool is_owned = source == MemorySource::parameters || source == MemorySource::gradients ||
                          source == MemorySource::optimizer_state;
    const std::uint32_t entry = is_owned ? owner(labels.name[allocation]) : kNoModule;
    if (entry != kNoModule) return entry;
  }
  return of_event(record, record.allocations.alloc_event[allocation]);
}

std::uint32_t ModuleIndex::owner(StringId label) {
  constexpr std::uint32_t kNotAsked = kNoModule - 1;
  std::uint32_t& entry = owners_.find_or_insert(label.index, kNotAsked);
  if (entry != kNotAsked) return entry;
  std::string_view name = store_.text(label);
  name = name.substr(0, name.find(' '));  // " exp_avg"
  if (name.ends_with(".grad")) name.remove_suffix(5);
  const std::size_t dot = name.rfind('.');
  entry = at_path(dot == std::string_view::npos ? "" : name.substr(0, dot));
  return entry;
}

}  // namespace gpumemprof
