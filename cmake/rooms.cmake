# gpumemprof_join_folders(<target> <source>...)
#
# In a unity build (CMAKE_UNITY_BUILD, on in the presets of the tests), the sources of one folder are compiled as one:
# headers are read once, and templates instantiated once. So a name in an unnamed namespace is unique in its folder, as
# tools/check_names.py checks. Remedies are compiled one by one: files of one shape, whose parts have the same names.
function(gpumemprof_join_folders target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    if(folder MATCHES "/remedies(/|$)")
      continue()
    endif()
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${group})
  endforeach()
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ takes an included source for a header, whose types must not have members of unnamed namespaces.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

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
    gpumemprof_join_folders(gpumemprof_${name} ${sources})
  else()
    set(scope INTERFACE)
    add_library(gpumemprof_${name} INTERFACE)
  endif()
  target_include_directories(gpumemprof_${name} ${scope} "${PROJECT_SOURCE_DIR}/src")
  target_compile_features(gpumemprof_${name} ${scope} cxx_std_20)
  target_link_libraries(gpumemprof_${name} ${scope} ${ARG_DEPS} ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY GPUMEMPROF_ROOMS gpumemprof_${name})
endfunction()

# gpumemprof_sources_checksum(<room> <room>...)
#
# Lets a room include "<room>/sources_checksum.h", which changes with any source of the other rooms.
function(gpumemprof_sources_checksum name)
  set(folders "")
  set(sources "")
  foreach(room IN LISTS ARGN)
    list(APPEND folders "${PROJECT_SOURCE_DIR}/src/${room}")
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${room}/*.h"
         "${PROJECT_SOURCE_DIR}/src/${room}/*.cpp")
    list(APPEND sources ${found})
  endforeach()
  set(script "${PROJECT_SOURCE_DIR}/cmake/sources_checksum.cmake")
  set(header "${PROJECT_BINARY_DIR}/generated/${name}/sources_checksum.h")
  add_custom_command(OUTPUT "${header}" COMMAND "${CMAKE_COMMAND}" "-DFOLDERS=${folders}" "-DOUTPUT=${header}" -P
                     "${script}" DEPENDS ${sources} "${script}" VERBATIM)
  # Now, too: whoever looks at sources without building them needs it.
  if(NOT EXISTS "${header}")
    execute_process(COMMAND "${CMAKE_COMMAND}" "-DFOLDERS=${folders}" "-DOUTPUT=${header}" -P "${script}")
  endif()
  target_sources(gpumemprof_${name} PRIVATE "${header}")
  target_include_directories(gpumemprof_${name} PRIVATE "${PROJECT_BINARY_DIR}/generated")
endfunction()
