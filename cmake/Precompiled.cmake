# stbench_precompiled(TARGET...): programs that check (stbench_checking_code), link the library, and whose files include
# <ATen/ATen.h> or <torch/torch.h>. g++ reads <ATen/ATen.h> and GoogleTest precompiled: on a slow core the smallest file takes
# 5.5 s instead of 18.5, the largest 40 instead of 57, and all of them 500 instead of 960. The headers themselves take 42 s.
#
# CMake's target_precompile_headers() does not serve: its header is in the build folder, so ccache could not share the
# compilations of a release build with AddressSanitizer's, which compiles checking code in the same way. This header is in
# build/headers for all build folders below build/. Both builds compile it, the second from ccache, and it keeps its time.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND STBENCH_UNITY)  # without batches, each file must name what it needs
  set(STBENCH_PRECOMPILES ON)
else()
  set(STBENCH_PRECOMPILES OFF)
endif()

function(stbench_precompile_headers)
  set(folder ${CMAKE_BINARY_DIR}/headers)
  get_filename_component(parent ${CMAKE_BINARY_DIR} DIRECTORY)
  if(parent STREQUAL ${PROJECT_SOURCE_DIR}/build)
    set(folder ${parent}/headers)
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/tests/libtorch_headers.h ${folder}/libtorch_headers.h COPYONLY)
  add_library(libtorch_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/libtorch_headers.h)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/libtorch_headers.h PROPERTIES
    LANGUAGE CXX HEADER_FILE_ONLY OFF COMPILE_OPTIONS "-fPIE;-x;c++-header")
  set_target_properties(libtorch_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # -fPIE, as programs
  stbench_checking_code(libtorch_headers)
  target_link_libraries(libtorch_headers PRIVATE stbench_flags speedtorch GTest::gmock)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/libtorch_headers.stamp
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_OBJECTS:libtorch_headers> ${folder}/libtorch_headers.h.gch
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/libtorch_headers.stamp
    DEPENDS $<TARGET_OBJECTS:libtorch_headers>
    COMMENT "Precompiling LibTorch's headers for the tests"
    VERBATIM)
  add_custom_target(precompiled_headers DEPENDS ${CMAKE_BINARY_DIR}/libtorch_headers.stamp)
  set_target_properties(precompiled_headers PROPERTIES HEADER ${folder}/libtorch_headers.h)
endfunction()

function(stbench_precompiled)
  if(NOT STBENCH_PRECOMPILES)
    return()
  endif()
  if(NOT TARGET precompiled_headers)
    stbench_precompile_headers()
  endif()
  get_target_property(header precompiled_headers HEADER)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Winvalid-pch -include ${header}>")
    target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)  # as the headers were compiled
    add_dependencies(${target} precompiled_headers)
  endforeach()
endfunction()
