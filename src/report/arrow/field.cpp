#include "report/arrow/field.h"

#include <memory>
#include <vector>

namespace gpumemprof::arrow {
namespace {

// What a schema owns: its children and dictionary, which a reader may have moved out (release is
// then null).
struct SchemaParts {
  std::vector<std::unique_ptr<ArrowSchema>> children;
  std::vector<ArrowSchema*> child_pointers;
  std::unique_ptr<ArrowSchema> dictionary;

  ~SchemaParts() {
    for (const auto& child : children) release_if_here(child.get());
    release_if_here(dictionary.get());
  }
  static void release_if_here(ArrowSchema* schema) {
    if (schema != nullptr && schema->release != nullptr) schema->release(schema);
  }
};

void release_schema(ArrowSchema* schema) {
  delete static_cast<SchemaParts*>(schema->private_data);
  schema->release = nullptr;
}

void finish(ArrowSchema* out, const char* format, const char* name, bool is_nullable,
            std::unique_ptr<SchemaParts> parts) {
  for (const auto& child : parts->children) parts->child_pointers.push_back(child.get());
  *out = {};
  out->format = format;
  out->name = name;
  out->flags = is_nullable ? ARROW_FLAG_NULLABLE : 0;
  out->n_children = static_cast<std::int64_t>(parts->children.size());
  out->children = parts->children.empty() ? nullptr : parts->child_pointers.data();
  out->dictionary = parts->dictionary.get();
  out->release = release_schema;
  out->private_data = parts.release();
}

void export_field(const Field& field, ArrowSchema* out) {
  auto parts = std::make_unique<SchemaParts>();
  if (field.dictionary != Dictionary::none) {
    parts->dictionary = std::make_unique<ArrowSchema>();
    const char* format = field.dictionary == Dictionary::texts ? kLargeUtf8 : kUtf8;
    finish(parts->dictionary.get(), format, "", false, std::make_unique<SchemaParts>());
  }
  finish(out, field.format, field.name, field.is_nullable, std::move(parts));
}

}  // namespace

void export_schema(std::span<const Field> fields, ArrowSchema* out) {
  auto parts = std::make_unique<SchemaParts>();
  for (const Field& field : fields) {
    parts->children.push_back(std::make_unique<ArrowSchema>());
    export_field(field, parts->children.back().get());
  }
  finish(out, kStruct, "", false, std::move(parts));
}

}  // namespace gpumemprof::arrow
