/* gpumemprof in C, for every language that can call C. C++ programs use reader.h and recorder.h,
 * which are written in terms of this interface.
 *
 * Rules of the whole interface:
 *  - Nothing throws, exits or prints. A function that can fail returns 0 or NULL and, unless
 * `error` is NULL, sets it; the caller frees the error. On success *error is left as it is.
 *  - NULL in place of an object is an error, has no rows, and leaves structs zeroed; freeing it
 * does nothing. Objects that were closed or freed must not be used any more.
 *  - Sizes are bytes. Unknown is GPUMEMPROF_UNKNOWN (bytes and counts), GPUMEMPROF_UNKNOWN_TIME,
 * GPUMEMPROF_UNKNOWN_SAVING or GPUMEMPROF_NONE (events, stacks), never 0.
 *  - Texts are UTF-8, not terminated unless it is said, and live as long as the object that they
 * were taken from.
 *  - Functions that fill structs take the size of the caller's struct: a later version may add
 * fields at the end.
 *  - A recording that is open does not change: any number of threads may read it.
 */
#ifndef GPUMEMPROF_GPUMEMPROF_H
#define GPUMEMPROF_GPUMEMPROF_H

#include "gpumemprof/c/errors.h"
#include "gpumemprof/c/reading.h"
#include "gpumemprof/c/recording.h"

#endif
