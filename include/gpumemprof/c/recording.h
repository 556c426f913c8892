/* Recording the memory of this process while it runs.
 *
 * What is recorded are the tensors of libtorch, which is found among the libraries that the process
 * has loaded; nothing is linked with it. Any thread may call. A forked child starts with nothing
 * recorded.
 */
#ifndef GPUMEMPROF_C_RECORDING_H
#define GPUMEMPROF_C_RECORDING_H

#include "gpumemprof/c/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpumemprof_recorder gpumemprof_recorder;

enum gpumemprof_memory {
  GPUMEMPROF_MEMORY_ANY = 0, /* of CUDA devices where libtorch sees one, else of CPU tensors */
  GPUMEMPROF_MEMORY_CPU = 1,
  GPUMEMPROF_MEMORY_CUDA = 2
};

typedef struct gpumemprof_record_options {
  uint8_t overwrites;        /* replace an existing file */
  const char* command;       /* stored in the file; NULL: the command line of this process */
  const char* torch_version; /* "2.8.0"; stored in the file; NULL: not known */
  uint8_t without_stacks;    /* do not record the C++ call stack of each event */
  uint32_t stack_depth;      /* how many of its frames, at most 256; 0: 128 */
  int32_t memory;            /* a gpumemprof_memory: which memory is recorded */
} gpumemprof_record_options;

/* Starts to record. Fails if libtorch is not loaded, or is one that cannot be followed: the program
 * runs on without. The memory of CUDA devices is recorded from here on, also if the program has not
 * used CUDA yet; what exists already is listed. CPU tensors that exist already are not known.
 * `options` may be NULL. */
GPUMEMPROF_API gpumemprof_recorder* gpumemprof_record(const char* path,
                                                      const gpumemprof_record_options* options,
                                                      size_t options_size,
                                                      gpumemprof_error** error);

typedef struct gpumemprof_record_summary {
  uint64_t events;      /* rows in the file */
  uint64_t lost_events; /* the recorder could not keep up */
  uint64_t size_bytes;  /* of the file */
  uint64_t peak_requested_bytes;
} gpumemprof_record_summary;

/* Closes the file: everything that happened before is in it. Frees the recorder, also where it
 * fails because the recording ended early, for example when the disk was full. `summary` may be
 * NULL. */
GPUMEMPROF_API int gpumemprof_record_stop(gpumemprof_recorder* recorder,
                                          gpumemprof_record_summary* summary, size_t summary_size,
                                          gpumemprof_error** error);

/* A training step begins, and the one before ends; in all open recordings. */
GPUMEMPROF_API void gpumemprof_record_step(void);
/* Around the step of an optimizer, whose number counts from 0; in all open recordings. */
GPUMEMPROF_API void gpumemprof_record_optimizer(uint32_t optimizer, int is_start);
/* Tags what the calling thread allocates from now on; returns the tag before, to be restored. */
GPUMEMPROF_API uint32_t gpumemprof_record_tag(const char* name);
GPUMEMPROF_API void gpumemprof_record_restore_tag(uint32_t tag);

enum gpumemprof_label_kind {
  GPUMEMPROF_LABEL_PARAMETER = 0,
  GPUMEMPROF_LABEL_BUFFER = 1,
  GPUMEMPROF_LABEL_GRADIENT = 2,
  GPUMEMPROF_LABEL_OPTIMIZER_STATE = 3,
  GPUMEMPROF_LABEL_INPUT = 4
};

/* What a storage is. */
typedef struct gpumemprof_label {
  int32_t kind;
  int32_t device;   /* -1: a CPU tensor */
  uint64_t address; /* of the storage */
  const char* name; /* "layers.0.weight" */
} gpumemprof_label;

/* 0: nothing is being recorded. Otherwise a number that changes when another recording begins: sets
 * of labels that were defined before are not known to that one. */
GPUMEMPROF_API uint64_t gpumemprof_newest_recording(void);
/* A set of at most 65,536 labels, for all recordings that are open now; GPUMEMPROF_NONE where it
 * fails. */
GPUMEMPROF_API uint32_t gpumemprof_define_labels(const gpumemprof_label* labels, size_t count,
                                                 gpumemprof_error** error);
/* A set like another one whose storages have moved: its labels, in the same order, at these
 * addresses. The other set is forgotten. Costs less than to define it again. */
GPUMEMPROF_API uint32_t gpumemprof_move_labels(uint32_t set, const uint64_t* addresses,
                                               size_t count);
/* As often as the set holds: each label goes to the allocation that is live at its address at this
 * moment. The caller keeps the storages alive until this returns. */
GPUMEMPROF_API void gpumemprof_apply_labels(uint32_t set);
GPUMEMPROF_API void gpumemprof_forget_labels(uint32_t set);

#ifdef __cplusplus
}
#endif

#endif
