# stbench_precompiled(TARGET...): programs that check (stbench_checking_code), link the library, and whose files include
# <ATen/ATen.h> or <torch/torch.h>. g++ reads <ATen/ATen.h> and GoogleTest precompiled: on a slow core the smallest file takes
# 5.5 s instead of 18.5, the largest 40 instead of 57, and all of them 500 instead of 960. The headers themselves take 42 s.
#
# CMake's target_precompile_headers() does not serve: its header is in the build folder, so ccache could not share the
# compilations of a release build with AddressSanitizer's, which compiles checking code in the same way. This header is in
# build/headers/KEY for all build folders below build/. Both builds compile it, the second from ccache, and it keeps its time.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND STBENCH_UNITY)  # without batches, each file must name what it needs
  set(STBENCH_PRECOMPILES ON)
else()
  set(STBENCH_PRECOMPILES OFF)
endif()

function(stbench_precompile_headers)
  get_filename_component(parent ${CMAKE_BINARY_DIR} DIRECTORY)
  if(NOT parent STREQUAL ${PROJECT_SOURCE_DIR}/build)
    set(parent ${CMAKE_BINARY_DIR})
  endif()
  # What decides the flags, and the compiler as it is now: g++ refuses a header that was compiled otherwise.
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} --version OUTPUT_VARIABLE compiler)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  string(REGEX REPLACE "address.*" "" sanitizer "${STBENCH_SANITIZE}")
  string(SHA1 key "${CMAKE_CXX_COMPILER} ${compiler} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${sanitizer} ${STBENCH_HAS_CUDA} ${LibTorch_INCLUDE_DIR}")
  string(SUBSTRING ${key} 0 8 key)
  set(header ${parent}/headers/${key}/libtorch_headers.h)
  set(source ${PROJECT_SOURCE_DIR}/tests/libtorch_headers.h)
  add_library(libtorch_headers OBJECT EXCLUDE_FROM_ALL ${source})
  set_source_files_properties(${source} PROPERTIES LANGUAGE CXX HEADER_FILE_ONLY OFF COMPILE_OPTIONS "-fPIE;-x;c++-header")
  set_target_properties(libtorch_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # -fPIE, as programs
  stbench_checking_code(libtorch_headers)
  target_link_libraries(libtorch_headers PRIVATE stbench_flags speedtorch GTest::gmock)
  set(stamp ${CMAKE_BINARY_DIR}/libtorch_headers.stamp)
  add_custom_command(OUTPUT ${stamp} BYPRODUCTS ${header} ${header}.gch
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${source} ${header}
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_OBJECTS:libtorch_headers> ${header}.gch
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${source} $<TARGET_OBJECTS:libtorch_headers>
    COMMENT "Precompiling LibTorch's headers for the tests"
    VERBATIM)
  add_custom_target(precompiled_headers DEPENDS ${stamp})
  add_dependencies(precompiled_headers libtorch_headers)
  set_target_properties(precompiled_headers PROPERTIES HEADER ${header})
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
    # A header that does not fit is read as text, and g++ says so. -fpch-deps would make its files dependencies, but with it
    # g++ 12 crashes when ccache preprocesses a file (-E -fpch-preprocess), and ccache reuses nothing.
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Winvalid-pch -Wno-error=invalid-pch -include \"${header}\">")
    target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)  # as the headers were compiled
    add_dependencies(${target} precompiled_headers)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL stbench_compile_after ${target} [==[${header}.gch]==])")
  endforeach()
endfunction()

# Called when the target's batches are written (cmake/Room.cmake): its files are compiled again when `file` changes.
function(stbench_compile_after target file)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  list(FILTER sources EXCLUDE REGEX "\\$<")
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE BASE_DIR ${folder})
    set_property(SOURCE ${path} TARGET_DIRECTORY ${target} APPEND PROPERTY OBJECT_DEPENDS ${file})
  endforeach()
endfunction()
