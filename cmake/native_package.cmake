# What is installed without Python: the command gpumemprof, the library with its headers and its packages for CMake and
# pkg-config, and documents. `cpack -G DEB` makes a Debian package of it.

include(GNUInstallDirs)

add_executable(gpumemprof_cli_exe src/cli/main.cpp)
set_target_properties(gpumemprof_cli_exe PROPERTIES OUTPUT_NAME gpumemprof)
target_link_libraries(gpumemprof_cli_exe PRIVATE gpumemprof_cli gpumemprof_build_flags)
target_compile_definitions(
  gpumemprof_cli_exe PRIVATE GPUMEMPROF_DATA_FOLDER="${CMAKE_INSTALL_DATADIR}/gpumemprof"
                             GPUMEMPROF_FULL_DATA_FOLDER="${CMAKE_INSTALL_FULL_DATADIR}/gpumemprof")
install(TARGETS gpumemprof_cli_exe RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(FILES python/gpumemprof/data/demo.pickle.gz python/gpumemprof/data/viewer.html
        DESTINATION "${CMAKE_INSTALL_DATADIR}/gpumemprof")

include(native_library)

install(FILES README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright)
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md" PATTERN decisions EXCLUDE
        PATTERN images EXCLUDE)
install(DIRECTORY examples/cpp examples/libtorch DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")

set(CPACK_PACKAGE_NAME gpumemprof)
set(CPACK_PACKAGE_VENDOR "the gpumemprof developers")
set(CPACK_PACKAGE_CONTACT "the gpumemprof developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "reads recordings of GPU memory in PyTorch programs")
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "the gpumemprof developers <gpumemprof@localhost>")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
# The libraries that the programs in it load, with the versions they need.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
include(CPack)
