# gpumemprof_room(<name> [DEPS <room>...] [LINK <foreign target>...])
#
# Makes the library gpumemprof_<name> from the sources under src/<name>. A room with headers alone, or with nothing
# written yet, becomes an interface library, so that the rooms above it can name it all the same.
function(gpumemprof_room name)
  cmake_parse_arguments(ARG "" "" "DEPS;LINK" ${ARGN})
  set(folder "${PROJECT_SOURCE_DIR}/src/${name}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  list(REMOVE_ITEM sources "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
  list(TRANSFORM ARG_DEPS PREPEND "gpumemprof_")

  if(sources)
    set(scope PUBLIC)
    add_library(gpumemprof_${name} STATIC ${sources})
    target_link_libraries(gpumemprof_${name} PRIVATE gpumemprof_build_flags)
  else()
    set(scope INTERFACE)
    add_library(gpumemprof_${name} INTERFACE)
  endif()
  target_include_directories(gpumemprof_${name} ${scope} "${PROJECT_SOURCE_DIR}/src")
  target_compile_features(gpumemprof_${name} ${scope} cxx_std_20)
  target_link_libraries(gpumemprof_${name} ${scope} ${ARG_DEPS} ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY GPUMEMPROF_ROOMS gpumemprof_${name})
endfunction()
