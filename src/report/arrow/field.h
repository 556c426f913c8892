// Field: the name and type of a column, and the ArrowSchema that describes it.
#pragma once

#include <cstdint>
#include <span>

#include "report/arrow/arrow_abi.h"

namespace gpumemprof::arrow {

// Small codes into a list of texts, so that a text is stored once.
enum class Dictionary : std::uint8_t {
  none,
  actions,  // the names of the actions
  sources,  // the names of the memory sources
  texts,    // every text of the store
};

struct Field {
  const char* name;
  const char* format;  // as the ABI spells types; of the codes where there is a dictionary
  bool is_nullable = false;
  Dictionary dictionary = Dictionary::none;
};

inline constexpr const char* kBool = "b";
inline constexpr const char* kInt8 = "c";
inline constexpr const char* kUInt32 = "I";
inline constexpr const char* kInt64 = "l";
inline constexpr const char* kUtf8 = "u";
inline constexpr const char* kLargeUtf8 = "U";
inline constexpr const char* kStruct = "+s";

// The type of a whole batch: a struct of these fields. The fields' texts must outlive it (they are
// literals).
void export_schema(std::span<const Field> fields, ArrowSchema* out);

}  // namespace gpumemprof::arrow
