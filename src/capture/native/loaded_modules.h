// LoadedModules: which program or library an address of native code belongs to.
//
// For the drain thread alone: it asks the loader, which takes its lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/native/native_walker.h"
#include "event/native_module.h"

namespace gpumemprof::capture {

class LoadedModules {
 public:
  struct Place {
    std::uint32_t module = 0;
    std::uint64_t address = 0;  // as the module counts it
    bool operator==(const Place&) const = default;
  };
  std::optional<Place> find(std::uintptr_t address);
  // Modules keep their numbers when they are unloaded.
  [[nodiscard]] const NativeModule& module(std::uint32_t number) const { return modules_[number]; }
  // Whether a module was unloaded since the last time: what was found until then may no longer be
  // there.
  bool have_some_gone();

 private:
  struct Part {
    AddressRange range;
    std::uintptr_t base = 0;
    std::uint32_t module = 0;
  };
  struct Changes {
    std::uint64_t loaded = 0;
    std::uint64_t unloaded = 0;
    bool operator==(const Changes&) const = default;
  };
  struct Reading;

  static Changes changes();
  [[nodiscard]] const Part* part_of(std::uintptr_t address) const;
  void read_all();
  std::uint32_t number_of(const std::string& path, const std::string& build_id);

  std::vector<NativeModule> modules_;
  std::vector<Part> parts_;  // by address
  Changes read_at_;
  Changes last_seen_;
};

// The code of the module that an address of it belongs to; empty if there is none.
AddressRange code_of_module_at(std::uintptr_t address);

}  // namespace gpumemprof::capture
