# Every target of ours links gpumemprof_build_flags: the warnings here, the sanitizers in sanitizers.cmake.

add_library(gpumemprof_build_flags INTERFACE)

target_compile_options(
  gpumemprof_build_flags
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wold-style-cast
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wimplicit-fallthrough
            -Wunused
            $<$<BOOL:${GPUMEMPROF_WERROR}>:-Werror>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 and 13 see overruns and dangling references inside their own inlined standard library at -O2.
  target_compile_options(
    gpumemprof_build_flags
    INTERFACE -Wduplicated-cond -Wlogical-op -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict
              -Wno-dangling-reference)
endif()
