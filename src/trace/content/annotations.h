// Annotation blocks: annotations, lost events and samples of the card.
#pragma once

#include <vector>

#include "event/recording.h"
#include "trace/bytes_io.h"
#include "trace/content/definitions.h"

namespace gpumemprof::trace {

struct Annotations {
  std::vector<Annotation> annotations;
  std::vector<LostEvents> lost_events;
  std::vector<DeviceSample> samples;

  [[nodiscard]] std::size_t size() const {
    return annotations.size() + lost_events.size() + samples.size();
  }
  void clear();
};

void encode_annotations(OutBytes& out, const Annotations& block);
bool decode_annotations(InBytes in, const DefinitionMap& definitions, Annotations& block);

}  // namespace gpumemprof::trace
