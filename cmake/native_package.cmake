# What is installed without Python: the command gpumemprof, the library with its headers and its packages for CMake and
# pkg-config, and documents. `cpack -G DEB` makes Debian packages of it.

include(GNUInstallDirs)

add_executable(gpumemprof_cli_exe src/cli/main.cpp)
set_target_properties(gpumemprof_cli_exe PROPERTIES OUTPUT_NAME gpumemprof)
target_link_libraries(gpumemprof_cli_exe PRIVATE gpumemprof_cli gpumemprof_build_flags)
target_compile_definitions(
  gpumemprof_cli_exe PRIVATE GPUMEMPROF_DATA_FOLDER="${CMAKE_INSTALL_DATADIR}/gpumemprof"
                             GPUMEMPROF_FULL_DATA_FOLDER="${CMAKE_INSTALL_FULL_DATADIR}/gpumemprof")
install(TARGETS gpumemprof_cli_exe RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
find_program(gzip gzip REQUIRED)
set(manual "${PROJECT_BINARY_DIR}/gpumemprof.1")
add_custom_command(
  TARGET gpumemprof_cli_exe
  POST_BUILD
  COMMAND gpumemprof_cli_exe help --man > "${manual}"
  COMMAND "${gzip}" -9nf "${manual}"
  VERBATIM)
install(FILES "${manual}.gz" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT command)
install(FILES python/gpumemprof/data/demo.pickle.gz python/gpumemprof/data/viewer.html
        DESTINATION "${CMAKE_INSTALL_DATADIR}/gpumemprof" COMPONENT command)

include(native_library)

install(FILES README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT command)
# In none of Debian's packages, which say where the license is.
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT license)
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT command
        FILES_MATCHING PATTERN "*.md" PATTERN decisions EXCLUDE PATTERN images EXCLUDE)
install(DIRECTORY examples/cpp examples/libtorch DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples" COMPONENT development)

include(debian_packages)
