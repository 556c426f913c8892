# The sanitizers apply to the rooms as well as to what uses them, so a sanitized build is a tree of its own.

if(GPUMEMPROF_SANITIZE)
  list(JOIN GPUMEMPROF_SANITIZE "," sanitizers)
  add_compile_options(-fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${sanitizers})
endif()

if(GPUMEMPROF_BUILD_FUZZ AND GPUMEMPROF_LIBFUZZER)
  # Coverage in the rooms is what libFuzzer steers by.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
