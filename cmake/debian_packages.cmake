# `cpack -G DEB`: the library alone, what programs are built with, and the command, which needs neither of them. The files
# come from the components of native_library.cmake and native_package.cmake.

set(maintainer "the gpumemprof developers <gpumemprof@localhost>")
# A program needs the library by its name, so that libraries of two such names can be installed side by side.
set(library_package "libgpumemprof${compatible_version}")
set(development_package libgpumemprof-dev)
set(command_package gpumemprof)

set(CPACK_PACKAGE_NAME gpumemprof)
set(CPACK_PACKAGE_VENDOR "the gpumemprof developers")
set(CPACK_PACKAGE_CONTACT "the gpumemprof developers")
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
# Not where cpack happens to be called: that is usually the folder of the sources.
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL library development command)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${maintainer}")

set(about "gpumemprof records the memory of PyTorch and libtorch programs,
and explains and predicts what they need.")
# All of it was one package before.
set(one_package "${command_package} (<< 0.1.4)")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
# The libraries that the programs in it load, with the versions they need; and what those who load it have to depend on.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "recordings of GPU memory in PyTorch programs (library)
${about} This package holds the
library that records a program and reads recordings.")
foreach(relation BREAKS REPLACES)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_${relation} "${one_package}")
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_${relation} "${one_package}")
endforeach()

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME ${development_package})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "recordings of GPU memory in PyTorch programs (headers)
${about} This package holds what
programs in C++ and C are built with, and examples.")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME ${command_package})
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "recordings of GPU memory in PyTorch programs (command)
${about} This package holds the
command that reads recordings, and the documents.")

# What each Debian package has in its folder of documents; an installation without packages does not need it three times.
# As Debian wants it, which has the text of the license.
set(copyright "${PROJECT_BINARY_DIR}/debian/copyright")
file(WRITE "${copyright}" "Copyright (C) 2026 the gpumemprof developers\nLicense: Apache-2.0\n"
                          "On Debian systems the license is in /usr/share/common-licenses/Apache-2.0.\n")
string(TIMESTAMP today "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component library development command)
  set(package ${${component}_package})
  set(folder "${CMAKE_INSTALL_DATADIR}/doc/${package}")
  install(FILES "${copyright}" DESTINATION "${folder}" COMPONENT ${component} EXCLUDE_FROM_ALL)
  set(changes "${PROJECT_BINARY_DIR}/debian/${package}/changelog")
  file(WRITE "${changes}" "${package} (${PROJECT_VERSION}) unstable; urgency=medium\n\n"
                          "  * See CHANGELOG.md of gpumemprof.\n\n -- ${maintainer}  ${today}\n")
  execute_process(COMMAND "${gzip}" -9nf "${changes}")
  install(FILES "${changes}.gz" DESTINATION "${folder}" COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
