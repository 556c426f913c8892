// micro_batch_x0.5, micro_batch_x0.25, micro_batch_x0.125: the same batch in several parts, whose
// gradients are summed.
#include <string>

#include "analysis/advice/remedies/batch/batch_scaling.h"
#include "analysis/advice/remedies/list.h"

namespace gpumemprof::remedies {
namespace {

// A RemedySpec refers to its texts, so they live as long as the program.
template <int kParts>
std::string_view micro_batch_code() {
  static const std::string kNumber = std::to_string(kParts);
  static const std::string kCode = "for x_part, y_part in zip(x.chunk(" + kNumber + "), y.chunk(" +
                                   kNumber +
                                   ")):\n"
                                   "    (loss_function(model(x_part), y_part) / " +
                                   kNumber +
                                   ").backward()\n"
                                   "optimizer.step()";
  return kCode;
}

template <int kParts>
std::string_view micro_batch_trainer_code() {
  static const std::string kCode =
      "TrainingArguments(gradient_accumulation_steps=" + std::to_string(kParts) +
      ",\n"
      "                  per_device_train_batch_size=…)";
  return kCode;
}

template <int kParts>
RemedySpec with_parts(std::string_view name, std::string_view title, double fit_cost,
                      int fit_order) {
  constexpr double kFactor = 1.0 / kParts;
  return {
      .name = name,
      .title = title,
      .cost = RemedyCost::slower,
      .how = micro_batch_code<kParts>(),
      .how_trainer = micro_batch_trainer_code<kParts>(),
      .aspect = Aspect::batch,
      .batch_factor = kFactor,
      .band = 0.03,
      .least = {.step = kFactor},
      .fit_cost = fit_cost,
      .fit_order = fit_order,
      .rewrite = [](const AdvisedRun&, const Change&,
                    Rewrite& rewrite) { accumulate_gradients(rewrite); },
  };
}

}  // namespace

RemedySpec micro_batch_x0_5() {
  return with_parts<2>("micro_batch_x0.5", "the same batch as 2 micro-batches of half its size", 12,
                       60);
}

RemedySpec micro_batch_x0_25() {
  return with_parts<4>("micro_batch_x0.25", "the same batch as 4 micro-batches of a quarter", 20,
                       61);
}

RemedySpec micro_batch_x0_125() {
  return with_parts<8>("micro_batch_x0.125", "the same batch as 8 micro-batches of an eighth", 28,
                       62);
}

}  // namespace gpumemprof::remedies
