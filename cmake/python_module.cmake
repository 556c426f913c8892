# The Python module gpumemprof._core, from python/bindings.

# From 3.12 on, one module serves every later Python: scikit-build-core then names the component and the version.
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})

# scikit-build-core puts nanobind on the search path; outside of it, ask the interpreter.
find_package(nanobind CONFIG QUIET)
if(NOT nanobind_FOUND)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_package(nanobind CONFIG QUIET)
endif()
if(NOT nanobind_FOUND)
  message(FATAL_ERROR "nanobind was not found: run '${Python_EXECUTABLE} -m pip install nanobind'.")
endif()

file(GLOB bindings CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/bindings/*.cpp")
if(NOT bindings)
  message(WARNING "python/bindings holds no sources yet: gpumemprof._core is not built.")
  return()
endif()
set(stable_abi "")
if(SKBUILD_SABI_VERSION)
  set(stable_abi STABLE_ABI)
endif()
nanobind_add_module(_core ${stable_abi} NB_STATIC NB_SUPPRESS_WARNINGS ${bindings})
gpumemprof_join_folders(_core ${bindings})
if(GPUMEMPROF_SMALL)
  target_compile_options(_core PRIVATE ${small_code})
endif()
if(stable_abi)
  # nanobind uses stderr, which Python.h brings only outside of the stable ABI; GNU's standard library happens to as well.
  foreach(target nanobind-static-abi3 _core)
    target_compile_options(${target} PRIVATE "SHELL:-include cstdio")
  endforeach()
endif()
target_link_libraries(_core PRIVATE gpumemprof_session gpumemprof_report gpumemprof_cli gpumemprof_capture
                                    gpumemprof_estimate gpumemprof_follow gpumemprof_build_flags)
# The module lives beside libtorch and its libraries: nothing of ours but its entry may be seen, not even templates of
# the standard library, which every other library has too.
file(WRITE "${PROJECT_BINARY_DIR}/exports.map" "{ global: PyInit__core; local: *; };\n")
target_link_options(_core PRIVATE "-Wl,--version-script=${PROJECT_BINARY_DIR}/exports.map")
install(TARGETS _core LIBRARY DESTINATION gpumemprof)
# Not beside the modules: it is none, and whoever walks through the package would import it.
install(TARGETS gpumemprof_redirect LIBRARY DESTINATION gpumemprof/data)
# Python runs it at startup; it does nothing unless the environment has GPUMEMPROF=1.
install(FILES "${PROJECT_SOURCE_DIR}/python/gpumemprof.pth" DESTINATION .)
