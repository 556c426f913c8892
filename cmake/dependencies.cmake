# Foreign libraries. A header-only one may come from an installed package or from ${GPUMEMPROF_DEPS_DIR}/include, the
# ignored folder that tools/carry-deps fills for machines on which nothing can be installed.

function(gpumemprof_fail_missing what debian_package)
  message(FATAL_ERROR "${what} was not found: install the Debian package ${debian_package} or run tools/install.")
endfunction()

# gpumemprof_find_headers(<package> TARGET <imported target> HEADER <header> DEBIAN <package>)
function(gpumemprof_find_headers package)
  cmake_parse_arguments(ARG "" "TARGET;HEADER;DEBIAN" "" ${ARGN})
  find_package(${package} CONFIG QUIET GLOBAL)
  if(TARGET ${ARG_TARGET})
    return()
  endif()
  find_path(GPUMEMPROF_${package}_INCLUDE_DIR ${ARG_HEADER} HINTS "${GPUMEMPROF_DEPS_DIR}/include")
  mark_as_advanced(GPUMEMPROF_${package}_INCLUDE_DIR)
  if(NOT GPUMEMPROF_${package}_INCLUDE_DIR)
    gpumemprof_fail_missing("${package}" ${ARG_DEBIAN})
  endif()
  add_library(${ARG_TARGET} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${ARG_TARGET} SYSTEM INTERFACE "${GPUMEMPROF_${package}_INCLUDE_DIR}")
endfunction()

# Its headers alone, so that the installed module needs no libfmt.so at run time; src/base/formatting.cpp has its functions.
gpumemprof_find_headers(fmt TARGET fmt::fmt-header-only HEADER fmt/format.h DEBIAN libfmt-dev)
set_target_properties(fmt::fmt-header-only PROPERTIES INTERFACE_COMPILE_DEFINITIONS "")
gpumemprof_find_headers(CLI11 TARGET CLI11::CLI11 HEADER CLI/CLI.hpp DEBIAN libcli11-dev)
gpumemprof_find_headers(nlohmann_json TARGET nlohmann_json::nlohmann_json HEADER nlohmann/json.hpp DEBIAN
                        nlohmann-json3-dev)
gpumemprof_find_headers(protozero TARGET protozero::protozero HEADER protozero/pbf_writer.hpp DEBIAN libprotozero-dev)

find_package(ZLIB QUIET)
if(NOT ZLIB_FOUND)
  gpumemprof_fail_missing("zlib" zlib1g-dev)
endif()

# Debian's package has no CMake config; other distributions and vcpkg have one.
find_package(zstd CONFIG QUIET GLOBAL)
if(TARGET zstd::libzstd_shared)
  set(gpumemprof_zstd zstd::libzstd_shared)
elseif(TARGET zstd::libzstd_static)
  set(gpumemprof_zstd zstd::libzstd_static)
else()
  find_path(GPUMEMPROF_zstd_INCLUDE_DIR zstd.h HINTS "${GPUMEMPROF_DEPS_DIR}/include")
  find_library(GPUMEMPROF_zstd_LIBRARY zstd HINTS "${GPUMEMPROF_DEPS_DIR}/lib")
  mark_as_advanced(GPUMEMPROF_zstd_INCLUDE_DIR GPUMEMPROF_zstd_LIBRARY)
  if(NOT GPUMEMPROF_zstd_INCLUDE_DIR OR NOT GPUMEMPROF_zstd_LIBRARY)
    gpumemprof_fail_missing("zstd" libzstd-dev)
  endif()
  add_library(gpumemprof_zstd UNKNOWN IMPORTED GLOBAL)
  set_target_properties(gpumemprof_zstd PROPERTIES IMPORTED_LOCATION "${GPUMEMPROF_zstd_LIBRARY}")
  target_include_directories(gpumemprof_zstd SYSTEM INTERFACE "${GPUMEMPROF_zstd_INCLUDE_DIR}")
  set(gpumemprof_zstd gpumemprof_zstd)
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
