# The PTX interpreter, and its tests. It needs no GPU, driver or toolkit; with ptxas the tests' texts are assembled too.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ptx/*.cpp)
set(tests ${sources})
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$|/trial\\.cpp$")
list(FILTER tests INCLUDE REGEX "_test\\.cpp$|/trial\\.cpp$")

add_library(emulated_gpu_ptx STATIC ${sources})
target_link_libraries(emulated_gpu_ptx PUBLIC stbench_flags)
set_target_properties(emulated_gpu_ptx PROPERTIES POSITION_INDEPENDENT_CODE ON)
# Registers are bytes that instructions see as numbers of several types; what rounds, rounds as the instruction says.
# A kernel is hundreds of millions of instructions, so this is optimised in every build.
target_compile_options(emulated_gpu_ptx PRIVATE -O3 -fno-strict-aliasing -frounding-math -ffp-contract=off)

find_program(EMULATED_GPU_PTXAS ptxas HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda/bin NO_CACHE)
if(NOT EMULATED_GPU_PTXAS)
  set(EMULATED_GPU_PTXAS "")
endif()
stbench_test(emulated_gpu_ptx_test SOURCES ${tests} LIBRARIES emulated_gpu_ptx OPTIMISED)
stbench_together(emulated_gpu_ptx_test 9 APART ${CMAKE_CURRENT_SOURCE_DIR}/ptx/bits_test.cpp)
target_compile_definitions(emulated_gpu_ptx_test PRIVATE EMULATED_GPU_PTXAS="${EMULATED_GPU_PTXAS}")
# The expected numbers are the host's, so the host may not fuse what is written apart.
target_compile_options(emulated_gpu_ptx_test PRIVATE -frounding-math -ffp-contract=off)
