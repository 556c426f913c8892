// batch_x0.5, batch_x2: another number of samples in a batch.
#include "analysis/advice/remedies/list.h"

namespace gpumemprof::remedies {
namespace {

RemedySpec with_batch(double factor, std::string_view name, std::string_view title,
                      std::string_view how) {
  return {
      .name = name,
      .title = title,
      .cost = RemedyCost::changes_training,
      .how = how,
      .how_trainer = "TrainingArguments(per_device_train_batch_size=…)",
      .aspect = Aspect::batch,
      .batch_factor = factor,
      .band = 0.03,
      .least = {.step = factor < 1 ? factor : 1},
      .fit_cost = 45,
  };
}

}  // namespace

RemedySpec batch_x0_5() {
  return with_batch(0.5, "batch_x0.5", "half the batch",
                    "loader = DataLoader(dataset, batch_size=batch_size // 2)");
}

RemedySpec batch_x2() {
  return with_batch(2, "batch_x2", "twice the batch",
                    "loader = DataLoader(dataset, batch_size=2 * batch_size)");
}

}  // namespace gpumemprof::remedies
