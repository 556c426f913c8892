#include "report/json/tags_json.h"

#include <algorithm>

#include "event/provenance.h"

namespace gpumemprof {

using Json = nlohmann::ordered_json;

Json tags_json(const Store& store, const TagReport& report) {
  Json tags = Json::array();
  for (const TagFigures& figures : report.tags) {
    tags.push_back({{"tag", store.text(figures.tag)},
                    {"bytes", figures.bytes},
                    {"blocks", figures.blocks},
                    {"bytes_max", figures.bytes_max},
                    {"allocations", figures.allocations}});
  }
  return tags;
}

Json named_json(const Store& store, const TagReport& report, std::size_t top) {
  Json tensors = Json::array();
  for (std::size_t index = 0; index < std::min(top, report.largest.size()); ++index) {
    const NamedTensor& tensor = report.largest[index];
    const Provenance provenance = tensor.is_measured ? Provenance::measured : Provenance::inferred;
    tensors.push_back({{"name", store.text(tensor.name)},
                       {"source", memory_source_name(tensor.source)},
                       {"bytes", tensor.bytes},
                       {"provenance", provenance_name(provenance)}});
  }
  return {{"bytes", report.named_bytes},
          {"blocks", report.named_blocks},
          {"largest", std::move(tensors)}};
}

}  // namespace gpumemprof
