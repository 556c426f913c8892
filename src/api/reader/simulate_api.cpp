// A recorded run under other allocator settings.
#include "api/reader/json_text.h"
#include "api/reader/opened_recording.h"
#include "event/alloc_conf.h"
#include "report/json/whatif_json.h"

struct gpumemprof_simulation {
  gpumemprof::WhatIf whatif;
  std::vector<gpumemprof_simulated> rows;  // their texts are in `whatif`
};

namespace gpumemprof::api {
namespace {

Result<WhatIfOptions> whatif_options(const gpumemprof_simulate_options& given) {
  WhatIfOptions options;
  if (given.alloc_conf_count > 0 && given.alloc_confs == nullptr)
    return no_object("list of settings");
  if (given.memory_limit_count > 0 && given.memory_limits == nullptr)
    return no_object("list of limits");
  for (std::size_t index = 0; index < given.alloc_conf_count; ++index) {
    const char* conf = given.alloc_confs[index];
    options.alloc_confs.emplace_back(conf == nullptr ? "" : conf);  // the defaults
  }
  options.memory_limits.assign(given.memory_limits, given.memory_limits + given.memory_limit_count);
  options.searches = given.searches != 0;
  options.finds_min_memory = true;
  if (given.device != GPUMEMPROF_ANY_DEVICE) {
    options.device = device_index(given.device);
    if (!options.device) return no_device(given.device);
  }
  if (given.torch_version == nullptr) return options;
  const Result<TorchVersion> version = parse_torch_version(given.torch_version);
  if (!version) return version.error();
  options.version = version.value();
  return options;
}

gpumemprof_simulated simulated_row(const DeviceWhatIf& device, const WhatIfRun& run) {
  gpumemprof_simulated row{};
  row.device = device.device;
  row.alloc_conf = text_of(run.alloc_conf);
  static_assert(sim::kNoLimit == GPUMEMPROF_UNKNOWN);
  row.memory_limit_bytes = run.memory_limit_bytes;
  row.is_recorded = run.is_recorded ? 1 : 0;
  row.is_verified = device.verified.is_exact() ? 1 : 0;
  row.peak_allocated_bytes = run.result.peak_allocated_bytes;
  row.peak_reserved_bytes = run.result.peak_reserved_bytes;
  row.out_of_memory = run.result.num_ooms();
  row.first_out_of_memory_event = run.result.first_oom_event;
  row.min_memory_bytes = run.min_memory_bytes.value_or(GPUMEMPROF_UNKNOWN);
  return row;
}

void add_rows(gpumemprof_simulation& simulation) {
  for (const DeviceWhatIf& device : simulation.whatif.devices) {
    for (const WhatIfRun& run : device.runs) simulation.rows.push_back(simulated_row(device, run));
  }
}

}  // namespace
}  // namespace gpumemprof::api

using namespace gpumemprof;

gpumemprof_simulation* gpumemprof_simulate(const gpumemprof_recording* recording,
                                           const gpumemprof_simulate_options* options,
                                           size_t options_size, gpumemprof_error** error) {
  return api::guarded<gpumemprof_simulation*>(nullptr, error, [&]() -> gpumemprof_simulation* {
    gpumemprof_simulate_options defaults{};
    defaults.device = GPUMEMPROF_ANY_DEVICE;
    if (recording == nullptr) {
      api::report(error, api::no_object("recording"));
      return nullptr;
    }
    const Result<WhatIfOptions> asked =
        api::whatif_options(api::taken(options, options_size, defaults));
    Result<WhatIf> made =
        asked ? recording->recording->whatif(asked.value()) : Result<WhatIf>(asked.error());
    if (!made) {
      api::report(error, made.error());
      return nullptr;
    }
    auto simulation =
        std::make_unique<gpumemprof_simulation>(gpumemprof_simulation{std::move(made).value(), {}});
    api::add_rows(*simulation);
    return simulation.release();
  });
}

size_t gpumemprof_read_simulated(const gpumemprof_simulation* simulation, uint64_t first,
                                 gpumemprof_simulated* rows, size_t count, size_t row_size) {
  if (simulation == nullptr) return 0;
  return api::fill_rows(rows, count, row_size, first, simulation->rows.size(),
                        [&](std::uint64_t row) { return simulation->rows[row]; });
}

void gpumemprof_simulation_free(gpumemprof_simulation* simulation) { delete simulation; }

char* gpumemprof_simulation_json(const gpumemprof_simulation* simulation,
                                 gpumemprof_error** error) {
  return api::json_text(error, [&]() -> Result<std::string> {
    if (simulation == nullptr) return api::no_object("simulation");
    return whatif_json(simulation->whatif);
  });
}
