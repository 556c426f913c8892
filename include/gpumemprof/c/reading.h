/* Reading recordings: events, allocations, moments, sources, steps; other allocator settings;
 * advice. */
#ifndef GPUMEMPROF_C_READING_H
#define GPUMEMPROF_C_READING_H

#include "gpumemprof/c/errors.h"

/* For options: every device, or the one with the highest peak where only one is looked at. */
#define GPUMEMPROF_ANY_DEVICE INT32_MIN
#define GPUMEMPROF_MOST_SOURCES 32

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpumemprof_text {
  const char* data;
  size_t size;
} gpumemprof_text;

/* ---- A recording ---- */

typedef struct gpumemprof_recording gpumemprof_recording;

/* Any file that gpumemprof reads: .gmp (also a folder of chapters), PyTorch memory snapshots,
 * gzipped or not. All of it is loaded into memory. */
GPUMEMPROF_API gpumemprof_recording* gpumemprof_open(const char* path, gpumemprof_error** error);
/* Only these steps of a .gmp file of any length, as a recording of its own, whose first events
 * restore what was live when they began (lead_in_events of gpumemprof_device). */
GPUMEMPROF_API gpumemprof_recording* gpumemprof_open_steps(const char* path, uint32_t first,
                                                           uint32_t last, gpumemprof_error** error);
GPUMEMPROF_API void gpumemprof_close(gpumemprof_recording* recording);

typedef struct gpumemprof_recording_info {
  gpumemprof_text path;
  gpumemprof_text kind; /* "live", "torch_snapshot", "simulated", "predicted" (by estimate) */
  uint32_t devices;
  uint8_t is_whole;         /* nothing is known to be missing */
  uint64_t lost_events;     /* known to be missing; there may be more where it is not whole */
  gpumemprof_text cut;      /* a sentence where the file ends too early; empty: it does not */
  gpumemprof_text torch;    /* versions; empty: not recorded, as all that follow */
  gpumemprof_text recorder; /* gpumemprof's, when it was recorded */
  gpumemprof_text command;
  gpumemprof_text host;
} gpumemprof_recording_info;

GPUMEMPROF_API void gpumemprof_get_info(const gpumemprof_recording* recording,
                                        gpumemprof_recording_info* info, size_t info_size);

/* ---- Devices ---- */

typedef struct gpumemprof_totals {
  uint64_t allocated_bytes;
  uint64_t active_bytes;   /* allocated, and freed but still in use by a stream */
  uint64_t reserved_bytes; /* unknown for CPU tensors, which have no pool */
  uint64_t requested_bytes;
} gpumemprof_totals;

enum gpumemprof_run_kind {
  GPUMEMPROF_RUN_UNKNOWN = 0,
  GPUMEMPROF_RUN_TRAINING = 1,
  GPUMEMPROF_RUN_INFERENCE = 2
};

typedef struct gpumemprof_device {
  int32_t index; /* -1: main memory */
  int32_t run_kind;
  gpumemprof_text name;      /* "cuda:0" */
  gpumemprof_text card_name; /* "NVIDIA H200"; empty: not recorded */
  uint64_t card_total_bytes;
  uint64_t events;
  uint64_t allocations;         /* rows of gpumemprof_read_allocations */
  uint8_t has_pool;             /* 0: CPU tensors */
  uint8_t has_history;          /* 0: only the state at the end is known */
  uint8_t has_labels;           /* sources are measured where labels say what memory is */
  gpumemprof_totals peak;       /* when the most was allocated */
  uint32_t peak_event;          /* none: when the history began */
  uint64_t peak_reserved_bytes; /* at a moment of its own */
  uint32_t peak_reserved_event;
  gpumemprof_totals start;
  gpumemprof_totals end;
  uint32_t exact_from_event; /* none: never exact */
  uint64_t out_of_memory;    /* how often memory ran out */
  uint64_t steps;            /* rows of gpumemprof_read_steps */
  uint32_t
      lead_in_events; /* of a part of a run: these only restore the state that it begins with */
} gpumemprof_device;

/* `device` is a row: 0 to devices - 1 of gpumemprof_recording_info. */
GPUMEMPROF_API int gpumemprof_get_device(const gpumemprof_recording* recording, uint32_t device,
                                         gpumemprof_device* out, size_t out_size,
                                         gpumemprof_error** error);

/* ---- Events, allocations and stacks ----
 *
 * Each function reads up to `count` rows from row `first` on and returns how many it read: 0 at the
 * end. An unknown device has no rows. */

typedef struct gpumemprof_event {
  int32_t action; /* see gpumemprof_action_name */
  uint32_t stack;
  uint32_t
      forward_stack; /* of memory allocated in backward: where the forward operation was called */
  uint64_t address;  /* of "oom": how many bytes the device had free */
  /* Of a block, what was requested; it may take more from the pool (gpumemprof_allocation
   * has both); of "segment_…", what the pool took or returned; of "oom", the refused request,
   * rounded. */
  uint64_t size_bytes;
  uint64_t stream;
  int64_t time_ns;
  gpumemprof_text module;          /* "transformer.h.0"; empty: not recorded */
  gpumemprof_text compile_context; /* empty: none */
} gpumemprof_event;

GPUMEMPROF_API size_t gpumemprof_read_events(const gpumemprof_recording* recording, uint32_t device,
                                             uint64_t first, gpumemprof_event* rows, size_t count,
                                             size_t row_size);
/* "alloc", "free_requested", "segment_alloc" …; "" for a number that is none. */
GPUMEMPROF_API const char* gpumemprof_action_name(int32_t action);

typedef struct gpumemprof_allocation {
  uint64_t address;
  uint64_t size_bytes;      /* of the block: what it takes from the pool */
  uint64_t requested_bytes; /* what was asked for */
  uint32_t alloc_event;     /* none: it was there when the history began */
  uint32_t free_event;      /* none: live at the end */
  uint32_t reusable_event;  /* when no stream used it any more */
  uint32_t stack;
  uint64_t stream;
  int32_t source;       /* what it is for, see gpumemprof_source_name */
  uint8_t is_measured;  /* a label in the recording says so; otherwise the source is inferred */
  gpumemprof_text name; /* "h.3.mlp.c_fc.weight.grad"; empty: it has none */
} gpumemprof_allocation;

GPUMEMPROF_API size_t gpumemprof_read_allocations(const gpumemprof_recording* recording,
                                                  uint32_t device, uint64_t first,
                                                  gpumemprof_allocation* rows, size_t count,
                                                  size_t row_size);
/* "parameters", "gradients", "optimizer_state" …; "" for a number that is none. */
GPUMEMPROF_API const char* gpumemprof_source_name(int32_t source);

typedef struct gpumemprof_frame {
  gpumemprof_text function;
  gpumemprof_text file;
  uint32_t line;
} gpumemprof_frame;

/* The frames of a stack, innermost first; returns how many there are, of which the first `count`
 * are stored. */
GPUMEMPROF_API size_t gpumemprof_read_stack(const gpumemprof_recording* recording, uint32_t stack,
                                            gpumemprof_frame* rows, size_t count, size_t row_size);

/* The line of a stack that the program's author can change, as reports show it: the innermost frame
 * outside of torch, other libraries and the system, or without one, the innermost frame of Python.
 * 0: the stack has none. */
GPUMEMPROF_API int gpumemprof_line_of_stack(const gpumemprof_recording* recording, uint32_t stack,
                                            gpumemprof_frame* out, size_t out_size);

/* ---- Moments, sources and steps ---- */

typedef struct gpumemprof_moment {
  uint32_t event; /* the state after it */
  uint32_t step;  /* from 1; 0: before the first */
  int32_t phase;  /* see gpumemprof_phase_name */
  int64_t time_ns;
  gpumemprof_totals totals;
} gpumemprof_moment;

/* One row for each event. The first call for a device takes time and memory in proportion to its
 * events. */
GPUMEMPROF_API size_t gpumemprof_read_moments(const gpumemprof_recording* recording,
                                              uint32_t device, uint64_t first,
                                              gpumemprof_moment* rows, size_t count,
                                              size_t row_size);
/* "other", "forward", "backward", "optimizer_step", "evaluation"; "" for a number that is none. */
GPUMEMPROF_API const char* gpumemprof_phase_name(int32_t phase);

/* What each source holds after an event, by its number, and how much larger the blocks are than
 * what was requested; all add up to the allocated bytes. */
typedef struct gpumemprof_source_bytes {
  uint64_t by_source[GPUMEMPROF_MOST_SOURCES];
  uint64_t rounding_bytes;
} gpumemprof_source_bytes;

GPUMEMPROF_API int gpumemprof_sources_at(const gpumemprof_recording* recording, uint32_t device,
                                         uint32_t event, gpumemprof_source_bytes* out,
                                         size_t out_size, gpumemprof_error** error);

enum gpumemprof_provenance {
  GPUMEMPROF_MEASURED = 0,
  GPUMEMPROF_INFERRED = 1,
  GPUMEMPROF_SIMULATED = 2,
  GPUMEMPROF_ESTIMATED = 3
};

typedef struct gpumemprof_source {
  int32_t source;
  int32_t provenance; /* of bytes_at_peak */
  uint64_t bytes_at_peak;
  uint64_t bytes_max; /* its own maximum, generally not at the peak */
  uint32_t max_event;
  int32_t max_provenance;
} gpumemprof_source;

/* One row for each source, in the order in which they are shown. */
GPUMEMPROF_API size_t gpumemprof_read_sources(const gpumemprof_recording* recording,
                                              uint32_t device, uint64_t first,
                                              gpumemprof_source* rows, size_t count,
                                              size_t row_size);

typedef struct gpumemprof_step {
  uint32_t step; /* from 1; 0: before the first */
  uint32_t first_event;
  uint32_t last_event;
  uint32_t peak_event;
  uint64_t peak_bytes;
  uint64_t live_bytes;  /* allocated after its last event */
  uint64_t floor_bytes; /* the least allocated in it */
  gpumemprof_source_bytes at_peak;
} gpumemprof_step;

GPUMEMPROF_API size_t gpumemprof_read_steps(const gpumemprof_recording* recording, uint32_t device,
                                            uint64_t first, gpumemprof_step* rows, size_t count,
                                            size_t row_size);

/* ---- Other allocator settings ---- */

typedef struct gpumemprof_simulate_options {
  const char* const* alloc_confs; /* PYTORCH_CUDA_ALLOC_CONF strings to try */
  size_t alloc_conf_count;
  const uint64_t* memory_limits; /* bytes; each is tried with each setting */
  size_t memory_limit_count;
  const char* torch_version; /* "2.8"; NULL: the rules that fit the recording best */
  uint8_t searches;          /* try sensible settings and rank them */
  int32_t device;            /* index of a device, or GPUMEMPROF_ANY_DEVICE */
} gpumemprof_simulate_options;

/* One simulated run. */
typedef struct gpumemprof_simulated {
  int32_t device;              /* index */
  gpumemprof_text alloc_conf;  /* empty: the defaults */
  uint64_t memory_limit_bytes; /* unknown: none */
  uint8_t is_recorded;         /* under the recorded settings and limit */
  uint8_t is_verified;         /* the simulator reproduces the recording of this device exactly */
  uint64_t peak_allocated_bytes;
  uint64_t peak_reserved_bytes;
  uint64_t out_of_memory; /* how often memory ran out */
  uint32_t first_out_of_memory_event;
  uint64_t min_memory_bytes; /* the least in which it completes; unknown: not searched for */
} gpumemprof_simulated;

typedef struct gpumemprof_simulation gpumemprof_simulation;

/* `options` may be NULL: the recorded settings only. */
GPUMEMPROF_API gpumemprof_simulation* gpumemprof_simulate(
    const gpumemprof_recording* recording, const gpumemprof_simulate_options* options,
    size_t options_size, gpumemprof_error** error);
GPUMEMPROF_API size_t gpumemprof_read_simulated(const gpumemprof_simulation* simulation,
                                                uint64_t first, gpumemprof_simulated* rows,
                                                size_t count, size_t row_size);
GPUMEMPROF_API void gpumemprof_simulation_free(gpumemprof_simulation* simulation);

/* ---- Advice ---- */

typedef struct gpumemprof_advise_options {
  uint64_t fit_bytes;                /* find the cheapest way to stay below; unknown: no limit */
  uint64_t batch;                    /* samples in a recorded batch; unknown: not given */
  uint64_t sequence;                 /* tokens in a recorded sequence; unknown: not given */
  int32_t device;                    /* index of a device, or GPUMEMPROF_ANY_DEVICE */
  const gpumemprof_recording* other; /* with another batch size; NULL: none */
} gpumemprof_advise_options;

/* A prediction with its band; all unknown: there is none. */
typedef struct gpumemprof_predicted {
  uint64_t bytes;
  uint64_t low_bytes;
  uint64_t high_bytes;
} gpumemprof_predicted;

enum gpumemprof_remedy_cost {
  GPUMEMPROF_COST_FREE = 0,            /* the same results, no slower */
  GPUMEMPROF_COST_SLOWER = 1,          /* the same results, but slower */
  GPUMEMPROF_COST_CHANGES_TRAINING = 2 /* different numbers */
};

typedef struct gpumemprof_remedy {
  gpumemprof_text name;
  gpumemprof_text title;
  int32_t cost;
  int32_t provenance;
  gpumemprof_predicted peak_allocated;
  gpumemprof_predicted peak_reserved;
  uint64_t at_least_bytes; /* instead of a prediction, where only a part of a step is known */
  int64_t saving_bytes;    /* of allocated bytes; negative: it takes more; unknown where
                              peak_allocated is */
  double slowdown_percent; /* NaN: unknown */
  uint8_t is_slowdown_measured;
  gpumemprof_text why; /* it cannot be predicted, or does not apply */
  gpumemprof_text how; /* code for plain PyTorch */
} gpumemprof_remedy;

typedef struct gpumemprof_advice_summary {
  int32_t device; /* index */
  int32_t run_kind;
  uint64_t peak_allocated_bytes; /* as recorded */
  uint64_t peak_reserved_bytes;
  gpumemprof_text partial; /* a sentence, if only a part of a step is known */
  /* With a limit: */
  uint8_t fits_already;
  uint8_t is_fit_found;
  gpumemprof_text fit_refusal; /* a sentence, if the recording cannot show what fits */
  gpumemprof_text fit_names; /* "autocast_bf16+checkpointing": the cheapest that fit; empty: none */
  gpumemprof_predicted fit_peak_allocated;
  gpumemprof_predicted fit_peak_reserved;
} gpumemprof_advice_summary;

typedef struct gpumemprof_advice gpumemprof_advice;

/* `options` may be NULL: no limit, the device with the highest peak. */
GPUMEMPROF_API gpumemprof_advice* gpumemprof_advise(const gpumemprof_recording* recording,
                                                    const gpumemprof_advise_options* options,
                                                    size_t options_size, gpumemprof_error** error);
GPUMEMPROF_API void gpumemprof_get_advice(const gpumemprof_advice* advice,
                                          gpumemprof_advice_summary* out, size_t out_size);
/* Largest saving first. */
GPUMEMPROF_API size_t gpumemprof_read_remedies(const gpumemprof_advice* advice, uint64_t first,
                                               gpumemprof_remedy* rows, size_t count,
                                               size_t row_size);
GPUMEMPROF_API void gpumemprof_advice_free(gpumemprof_advice* advice);

/* ---- Documents ---- */

/* What the commands print with --json; free it with gpumemprof_text_free. NULL: `error` says why.
 */
GPUMEMPROF_API char* gpumemprof_info_json(const gpumemprof_recording* recording,
                                          gpumemprof_error** error);
GPUMEMPROF_API char* gpumemprof_report_json(const gpumemprof_recording* recording,
                                            gpumemprof_error** error);
GPUMEMPROF_API char* gpumemprof_leaks_json(const gpumemprof_recording* recording,
                                           gpumemprof_error** error);
GPUMEMPROF_API char* gpumemprof_simulation_json(const gpumemprof_simulation* simulation,
                                                gpumemprof_error** error);
GPUMEMPROF_API char* gpumemprof_advice_json(const gpumemprof_advice* advice,
                                            gpumemprof_error** error);
GPUMEMPROF_API void gpumemprof_text_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
