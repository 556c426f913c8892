# libgpumemprof: the rooms behind a C interface (src/api), from which nothing else can be seen. The C++ headers are
# written in terms of that interface, so that a program may use another standard library than ours.

include(CMakePackageConfigHelpers)

configure_file(include/gpumemprof/version.h.in "${PROJECT_BINARY_DIR}/generated/include/gpumemprof/version.h" @ONLY)
file(WRITE "${PROJECT_BINARY_DIR}/library_exports.map" "{ global: gpumemprof_*; local: *; };\n")

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/api/reader/*.cpp"
     "${PROJECT_SOURCE_DIR}/src/api/recorder/*.cpp")
add_library(gpumemprof_reader SHARED ${sources})
gpumemprof_join_folders(gpumemprof_reader ${sources})
# While the major version is 0, a new minor version may change the interface.
set(compatible_version "${PROJECT_VERSION_MAJOR}")
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND compatible_version ".${PROJECT_VERSION_MINOR}")
endif()
set_target_properties(
  gpumemprof_reader
  PROPERTIES OUTPUT_NAME gpumemprof EXPORT_NAME reader VERSION "${PROJECT_VERSION}" SOVERSION "${compatible_version}"
             LINK_DEPENDS "${PROJECT_BINARY_DIR}/library_exports.map")
target_include_directories(
  gpumemprof_reader PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                           "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated/include>"
                           "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(gpumemprof_reader INTERFACE cxx_std_17)
target_link_libraries(gpumemprof_reader PRIVATE gpumemprof_session gpumemprof_report gpumemprof_ingest
                                                gpumemprof_capture gpumemprof_build_flags)
# Never unloaded: once a program was recorded, libtorch holds functions of it.
target_link_options(gpumemprof_reader PRIVATE "-Wl,--version-script=${PROJECT_BINARY_DIR}/library_exports.map"
                    "-Wl,--exclude-libs,ALL" "-Wl,-z,nodelete")
# The same library: what reads recordings contains what writes them.
add_library(gpumemprof_recorder INTERFACE)
set_target_properties(gpumemprof_recorder PROPERTIES EXPORT_NAME recorder)
target_link_libraries(gpumemprof_recorder INTERFACE gpumemprof_reader)
add_library(gpumemprof::reader ALIAS gpumemprof_reader)
add_library(gpumemprof::recorder ALIAS gpumemprof_recorder)
install(TARGETS gpumemprof_reader gpumemprof_recorder EXPORT gpumemprof
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT development)

install(DIRECTORY include/gpumemprof DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development
        FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_BINARY_DIR}/generated/include/gpumemprof/version.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gpumemprof" COMPONENT development)

set(cmake_folder "${CMAKE_INSTALL_LIBDIR}/cmake/gpumemprof")
install(EXPORT gpumemprof NAMESPACE gpumemprof:: FILE gpumemprof-targets.cmake DESTINATION "${cmake_folder}"
        COMPONENT development)
configure_package_config_file(cmake/gpumemprof-config.cmake.in "${PROJECT_BINARY_DIR}/gpumemprof-config.cmake"
                              INSTALL_DESTINATION "${cmake_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/gpumemprof-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/gpumemprof-config.cmake" "${PROJECT_BINARY_DIR}/gpumemprof-config-version.cmake"
        DESTINATION "${cmake_folder}" COMPONENT development)

# Relative to the file itself, so that the installation can be moved.
set(pkgconfig_folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH pkgconfig_prefix "/${pkgconfig_folder}" "/")
string(REGEX REPLACE "/$" "" pkgconfig_prefix "${pkgconfig_prefix}")
configure_file(cmake/gpumemprof.pc.in "${PROJECT_BINARY_DIR}/gpumemprof.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/gpumemprof.pc" DESTINATION "${pkgconfig_folder}" COMPONENT development)
