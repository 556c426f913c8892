/* What all of the interface needs: unknown values, the library's version, errors. */
#ifndef GPUMEMPROF_C_ERRORS_H
#define GPUMEMPROF_C_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include "gpumemprof/version.h"

#if defined(__GNUC__)
#define GPUMEMPROF_API __attribute__((visibility("default")))
#else
#define GPUMEMPROF_API
#endif

#define GPUMEMPROF_UNKNOWN UINT64_MAX
#define GPUMEMPROF_UNKNOWN_TIME INT64_MIN
#define GPUMEMPROF_UNKNOWN_SAVING INT64_MIN
#define GPUMEMPROF_NONE UINT32_MAX

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, which may be newer than the header's: "0.1.0". */
GPUMEMPROF_API const char* gpumemprof_version(void);

enum gpumemprof_error_code {
  GPUMEMPROF_LIMIT_EXCEEDED = 1, /* a limit that the caller set was exceeded */
  GPUMEMPROF_USAGE = 2,          /* the call itself was wrong */
  GPUMEMPROF_BAD_INPUT = 3,      /* a file that cannot be read as what it claims to be */
  GPUMEMPROF_ENVIRONMENT = 4,    /* the machine is missing something */
  GPUMEMPROF_BUG = 70            /* an internal error */
};

typedef struct gpumemprof_error gpumemprof_error;

GPUMEMPROF_API int gpumemprof_error_kind(const gpumemprof_error* error);
/* What failed; where, and what to do next, which may be empty; and all three as one sentence.
 * Terminated texts. */
GPUMEMPROF_API const char* gpumemprof_error_message(const gpumemprof_error* error);
GPUMEMPROF_API const char* gpumemprof_error_where(const gpumemprof_error* error);
GPUMEMPROF_API const char* gpumemprof_error_hint(const gpumemprof_error* error);
GPUMEMPROF_API const char* gpumemprof_error_sentence(const gpumemprof_error* error);
GPUMEMPROF_API void gpumemprof_error_free(gpumemprof_error* error);

#ifdef __cplusplus
}
#endif

#endif
