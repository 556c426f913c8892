/* Prints the peak of each device of a recording, in C. */
#include <gpumemprof/gpumemprof.h>
#include <inttypes.h>
#include <stdio.h>

static int fail(gpumemprof_error* error) {
  const int kind = gpumemprof_error_kind(error);
  fprintf(stderr, "%s\n", gpumemprof_error_sentence(error));
  gpumemprof_error_free(error);
  return kind;
}

int main(int argc, char** argv) {
  gpumemprof_error* error = NULL;
  gpumemprof_recording* recording;
  gpumemprof_recording_info info;
  uint32_t row;
  if (argc != 2) {
    fprintf(stderr, "Usage: peak RECORDING\n");
    return GPUMEMPROF_USAGE;
  }
  recording = gpumemprof_open(argv[1], &error);
  if (recording == NULL) return fail(error);
  gpumemprof_get_info(recording, &info, sizeof(info));
  for (row = 0; row < info.devices; ++row) {
    gpumemprof_device device;
    if (!gpumemprof_get_device(recording, row, &device, sizeof(device), &error)) {
      gpumemprof_close(recording);
      return fail(error);
    }
    printf("%.*s: peak %" PRIu64 " bytes allocated, %" PRIu64 " events\n", (int)device.name.size,
           device.name.data, device.peak.allocated_bytes, device.events);
  }
  gpumemprof_close(recording);
  return 0;
}
