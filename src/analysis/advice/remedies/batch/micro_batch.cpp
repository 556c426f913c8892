// micro_batch_x0.5, micro_batch_x0.25, micro_batch_x0.125: the same batch in several parts, whose
// gradients are summed.
#include "analysis/advice/remedies/batch/batch_scaling.h"
#include "analysis/advice/remedies/list.h"

namespace gpumemprof::remedies {
namespace {

RemedySpec with_parts(double factor, double fit_cost, int fit_order) {
  return {
      .cost = RemedyCost::slower,
      .aspect = Aspect::batch,
      .batch_factor = factor,
      .band = 0.03,
      .least = {.step = factor},
      .fit_cost = fit_cost,
      .fit_order = fit_order,
      .rewrite = [](const AdvisedRun&, const Change&,
                    Rewrite& rewrite) { accumulate_gradients(rewrite); },
  };
}

}  // namespace

RemedySpec micro_batch_x0_5() {
  RemedySpec spec = with_parts(0.5, 12, 60);
  spec.name = "micro_batch_x0.5";
  spec.title = "the same batch as 2 micro-batches of half its size";
  spec.how =
      "for x_part, y_part in zip(x.chunk(2), y.chunk(2)):\n"
      "    (loss_function(model(x_part), y_part) / 2).backward()\n"
      "optimizer.step()";
  spec.how_trainer =
      "TrainingArguments(gradient_accumulation_steps=2,\n"
      "                  per_device_train_batch_size=…)";
  return spec;
}

RemedySpec micro_batch_x0_25() {
  RemedySpec spec = with_parts(0.25, 20, 61);
  spec.name = "micro_batch_x0.25";
  spec.title = "the same batch as 4 micro-batches of a quarter";
  spec.how =
      "for x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n"
      "    (loss_function(model(x_part), y_part) / 4).backward()\n"
      "optimizer.step()";
  spec.how_trainer =
      "TrainingArguments(gradient_accumulation_steps=4,\n"
      "                  per_device_train_batch_size=…)";
  return spec;
}

RemedySpec micro_batch_x0_125() {
  RemedySpec spec = with_parts(0.125, 28, 62);
  spec.name = "micro_batch_x0.125";
  spec.title = "the same batch as 8 micro-batches of an eighth";
  spec.how =
      "for x_part, y_part in zip(x.chunk(8), y.chunk(8)):\n"
      "    (loss_function(model(x_part), y_part) / 8).backward()\n"
      "optimizer.step()";
  spec.how_trainer =
      "TrainingArguments(gradient_accumulation_steps=8,\n"
      "                  per_device_train_batch_size=…)";
  return spec;
}

}  // namespace gpumemprof::remedies
