// ModuleIndex: the program's modules, if a live recording distinguishes them, and which of them an
// allocation belongs to.
//
// A module is identified by its path ("transformer.h.3.mlp"); a model that was created again has
// the same paths. A module without a name is identified by its class. Parameters, gradients and
// optimizer state belong to the module that owns the parameter, everything else to the innermost
// module whose forward allocated it, or, in backward, whose forward operation it belongs to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/flat_map.h"
#include "store/store.h"

namespace gpumemprof {

// A module's path with "*" for each number in it, "transformer.h.*.mlp": shared by all layers of a
// kind.
std::string layer_name_of(std::string_view name);

class ModuleIndex {
 public:
  struct Entry {
    StringId name;  // the path; the class for a root without one, or for a module without a name
    StringId path;  // none: not named
    bool is_root = false;
  };

  explicit ModuleIndex(const Store& store);

  // False: modules are not distinguished, and no allocation belongs to any.
  [[nodiscard]] bool has_modules() const { return store_.has_module_numbers(); }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::string_view name(std::uint32_t entry) const {
    return store_.text(entries_[entry].name);
  }
  // layer_name_of() its name.
  [[nodiscard]] std::string layer_name(std::uint32_t entry) const;
  // The entry with this path; kNoModule: there is none.
  [[nodiscard]] std::uint32_t at_path(std::string_view path) const;

  // The nearest enclosing module that the recording knows; kNoModule: there is none.
  [[nodiscard]] std::uint32_t around(std::uint32_t entry) const;

  // Entries, or kNoModule.
  [[nodiscard]] std::uint32_t of_event(const DeviceRecord& record, std::uint32_t event) const;
  [[nodiscard]] std::uint32_t of(const DeviceRecord& record, const AllocationLabels& labels,
                                 std::size_t allocation);

 private:
  // The owner of the parameter that a label names; a gradient's or state's suffix is ignored.
  std::uint32_t owner(StringId label);

  const Store& store_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> entry_of_number_;
  std::map<std::string_view, std::uint32_t> by_path_;
  std::map<std::string_view, std::uint32_t> by_class_;  // those without a name
  FlatMap<std::uint32_t> owners_;                       // by the label's row
};

}  // namespace gpumemprof
