# gpumemprof_redirect: a shared object that is preloaded into predicted programs and their children (src/redirect).
#
# It replaces functions of the C library, so it is linked with nothing of ours, without sanitizers, and with its own
# copy of the C++ library: it is loaded into programs in any language.
file(GLOB_RECURSE redirect_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/redirect/*.cpp")
add_library(gpumemprof_redirect MODULE ${redirect_sources})
set_target_properties(gpumemprof_redirect PROPERTIES OUTPUT_NAME _redirect PREFIX "" SUFFIX ".so")
gpumemprof_join_folders(gpumemprof_redirect ${redirect_sources})
target_include_directories(gpumemprof_redirect PRIVATE "${PROJECT_SOURCE_DIR}/src")
# Checked calls of the C library would be inlined where it is replaced. Speed of lookups is what programs notice.
target_compile_options(gpumemprof_redirect PRIVATE -O2 -U_FORTIFY_SOURCE -fno-exceptions -fno-rtti -fno-sanitize=all)
target_compile_definitions(gpumemprof_redirect PRIVATE _GNU_SOURCE)
target_link_libraries(gpumemprof_redirect PRIVATE gpumemprof_build_flags ${CMAKE_DL_LIBS})
target_link_options(gpumemprof_redirect PRIVATE -fno-sanitize=all
                    $<$<CXX_COMPILER_ID:GNU>:-static-libgcc;-static-libstdc++>)
