# stbench_fuzz_test(NAME SOURCES FILE... CORPUS FOLDER [HEADERS GLOB...] [FLAGS FLAG...] [LIBRARIES FILE...]
# [MALLOC_LIMIT_MB N]): the program NAME, built by a clang that has libFuzzer, and the test NAME.runs_long, which runs it
# for STBENCH_FUZZ_SECONDS. What it finds new goes to a folder of the build. Where there is no such clang the test is
# skipped and says so. The program is built anew where a source or one of the headers has changed.
set(STBENCH_FUZZ_SECONDS 3600 CACHE STRING "How long each fuzz target runs with ./test --long")
find_program(STBENCH_FUZZ_COMPILER NAMES clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++)

function(stbench_has_libfuzzer result)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/libfuzzer.cpp)
  file(WRITE ${source} "#include <cstddef>\n#include <cstdint>\nextern \"C\" int LLVMFuzzerTestOneInput(const "
    "std::uint8_t*, std::size_t) { return 0; }\n")
  execute_process(COMMAND ${STBENCH_FUZZ_COMPILER} -std=c++20 -fsanitize=fuzzer,address ${source} -o ${source}.out
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

function(stbench_fuzz_test name)
  cmake_parse_arguments(FUZZ "" "CORPUS;MALLOC_LIMIT_MB" "SOURCES;HEADERS;FLAGS;LIBRARIES" ${ARGN})
  if(NOT FUZZ_MALLOC_LIMIT_MB)
    set(FUZZ_MALLOC_LIMIT_MB 16)
  endif()
  set(can_fuzz OFF)
  if(STBENCH_FUZZ_COMPILER)
    stbench_has_libfuzzer(can_fuzz)
  endif()
  set(program ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name})
  if(can_fuzz)
    list(TRANSFORM FUZZ_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/)
    list(TRANSFORM FUZZ_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/)
    file(GLOB headers ${FUZZ_HEADERS})
    add_custom_command(OUTPUT ${program}
      COMMAND ${STBENCH_FUZZ_COMPILER} -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
        -I${PROJECT_SOURCE_DIR} ${FUZZ_FLAGS} ${FUZZ_SOURCES} ${FUZZ_LIBRARIES} -o ${program}
      DEPENDS ${FUZZ_SOURCES} ${headers} VERBATIM)
    # Of the long test alone: the larger targets take a minute to compile.
    add_custom_target(${name} DEPENDS ${program})
    add_test(NAME ${name}.is_built COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target ${name})
    set_tests_properties(${name}.is_built PROPERTIES LABELS "long;release" FIXTURES_SETUP ${name} TIMEOUT 600)
    set(command ${program} -max_total_time=${STBENCH_FUZZ_SECONDS} -malloc_limit_mb=${FUZZ_MALLOC_LIMIT_MB} -timeout=60 -max_len=4096
      -print_final_stats=1 -artifact_prefix=${name}- ${name}-found ${FUZZ_CORPUS})
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name}-found)
  else()
    message(STATUS "Fuzzing: no clang++ with libFuzzer found (Debian: clang-19 libclang-rt-19-dev); only the corpus is replayed")
    set(command ${CMAKE_COMMAND} -E echo "skipped: no clang++ with libFuzzer was found")
  endif()
  add_test(NAME ${name}.runs_long COMMAND ${command})
  math(EXPR timeout "${STBENCH_FUZZ_SECONDS} + 300")
  set_tests_properties(${name}.runs_long PROPERTIES LABELS "long;release" TIMEOUT ${timeout} FIXTURES_REQUIRED ${name}
    SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()
