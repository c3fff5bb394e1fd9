# stbench_fuzz_target(NAME SOURCES FILE... LIBRARIES TARGET... [OBJECTS FILE...] [LABELS LABEL...] [MALLOC_LIMIT_MB N]
# [CPU_SECONDS N]): the fuzz target NAME_fuzz, with its function in the first file. Each build replays its corpus,
# tests/corpus/NAME, by NAME_fuzz.replays_its_corpus, compiled as all tests are.
#
# With STBENCH_LONG and a clang that has libFuzzer, NAME_fuzz.runs_long runs it for STBENCH_FUZZ_CPU_SECONDS of processor time,
# or at most CPU_SECONDS: a small reader needs less.
# clang compiles SOURCES, named from the project's root, with sanitizers and with libFuzzer's counters. All else comes from
# LIBRARIES and OBJECTS as they are in the build. clang and g++ lay out nlohmann-json's ordered objects differently, so
# SOURCES must have all or none of the files that pass such objects to each other. All targets are in one CMake folder, so
# a file of several targets is compiled once.
set(STBENCH_FUZZ_CPU_SECONDS 600 CACHE STRING "Processor time of each fuzz target with ./test --long")
option(STBENCH_LONG "Look for a clang that has libFuzzer, for ./test --long" OFF)
set(STBENCH_SANITIZERS address,undefined)
add_custom_target(fuzz_programs)
add_dependencies(long_tests fuzz_programs)
find_program(STBENCH_FUZZ_PYTHON python3 REQUIRED)

function(stbench_find_libfuzzer)
  find_program(STBENCH_FUZZ_COMPILER NAMES clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/libfuzzer.cpp)
  file(WRITE ${source} "#include <cstddef>\n#include <cstdint>\nextern \"C\" int LLVMFuzzerTestOneInput(const "
    "std::uint8_t*, std::size_t) { return 0; }\n")
  execute_process(COMMAND ${STBENCH_FUZZ_COMPILER} -std=c++20 -fsanitize=fuzzer,${STBENCH_SANITIZERS} ${source} -o ${source}.out
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(STBENCH_FUZZ_COMPILER AND status EQUAL 0)
    set(STBENCH_CAN_FUZZ ON PARENT_SCOPE)
  else()
    unset(STBENCH_FUZZ_COMPILER CACHE)  # so that the next run looks again
    message(STATUS "Fuzzing: no clang++ with libFuzzer found (Debian: clang-19 libclang-rt-19-dev); only the corpora are replayed")
  endif()
endfunction()
if(STBENCH_LONG)
  stbench_find_libfuzzer()
endif()

# The object of one file, compiled with the includes and definitions of the targets that it is linked with.
function(stbench_fuzz_object result source libraries)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/fuzz/${source}.o)
  set(${result} ${object} PARENT_SCOPE)
  get_property(known DIRECTORY PROPERTY STBENCH_FUZZ_OBJECTS)
  if(object IN_LIST known)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY STBENCH_FUZZ_OBJECTS ${object})
  get_filename_component(folder ${object} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  set(words "")
  foreach(library IN LISTS libraries)
    set(includes $<TARGET_PROPERTY:${library},INCLUDE_DIRECTORIES>)
    set(definitions $<FILTER:$<TARGET_PROPERTY:${library},COMPILE_DEFINITIONS>,INCLUDE,.>)  # some are empty in this build
    list(APPEND words "$<$<BOOL:${includes}>:-idirafter$<JOIN:${includes},$<SEMICOLON>-idirafter>>"
      "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},$<SEMICOLON>-D>>")
  endforeach()
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${STBENCH_FUZZ_COMPILER} -std=c++20 -O1 -g1 -I${PROJECT_SOURCE_DIR} ${words}
      -fsanitize=fuzzer-no-link,${STBENCH_SANITIZERS} -fno-sanitize=vptr -fno-sanitize-recover=all
      -MD -MF ${object}.d -c ${PROJECT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${PROJECT_SOURCE_DIR}/${source} DEPFILE ${object}.d COMMENT "Compiling ${source} for fuzzing"
    COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()

# clang links, because it knows libFuzzer's libraries. If a function is defined twice, the object's definition wins.
function(stbench_fuzz_program name sources libraries other_objects)
  set(objects "")
  foreach(source IN LISTS sources)
    stbench_fuzz_object(object ${source} "${libraries}")
    list(APPEND objects ${object})
  endforeach()
  add_executable(${name} EXCLUDE_FROM_ALL ${objects} ${other_objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX
    RULE_LAUNCH_LINK "${PROJECT_SOURCE_DIR}/cmake/link_by.sh ${STBENCH_FUZZ_COMPILER}")
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,${STBENCH_SANITIZERS} -Wl,--allow-multiple-definition)
  target_link_libraries(${name} PRIVATE ${libraries})
  add_dependencies(fuzz_programs ${name})
endfunction()

function(stbench_fuzz_target name)
  cmake_parse_arguments(FUZZ "" "MALLOC_LIMIT_MB;CPU_SECONDS" "SOURCES;LIBRARIES;OBJECTS;LABELS" ${ARGN})
  if(NOT FUZZ_MALLOC_LIMIT_MB)
    set(FUZZ_MALLOC_LIMIT_MB 16)
  endif()
  set(seconds ${STBENCH_FUZZ_CPU_SECONDS})
  if(FUZZ_CPU_SECONDS AND FUZZ_CPU_SECONDS LESS seconds)
    set(seconds ${FUZZ_CPU_SECONDS})
  endif()
  set(corpus ${PROJECT_SOURCE_DIR}/tests/corpus/${name})
  set(files ${FUZZ_SOURCES})
  list(FILTER files INCLUDE REGEX "^tests/")  # the libraries have the rest
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/)
  stbench_test_program(${name}_fuzz_replay LIBRARIES ${FUZZ_LIBRARIES}
    SOURCES ${files} ${PROJECT_SOURCE_DIR}/tests/replay_corpus.cpp ${FUZZ_OBJECTS})
  add_test(NAME ${name}_fuzz.replays_its_corpus COMMAND ${name}_fuzz_replay ${corpus})
  set_tests_properties(${name}_fuzz.replays_its_corpus PROPERTIES LABELS "${FUZZ_LABELS}")
  if(NOT STBENCH_LONG)
    return()
  endif()
  set(command ${CMAKE_COMMAND} -E echo "skipped: no clang++ with libFuzzer was found")
  if(STBENCH_CAN_FUZZ)
    stbench_fuzz_program(${name}_fuzz "${FUZZ_SOURCES}" "${FUZZ_LIBRARIES}" "${FUZZ_OBJECTS}")
    set(command ${STBENCH_FUZZ_PYTHON} ${PROJECT_SOURCE_DIR}/tests/run_fuzzer.py $<TARGET_FILE:${name}_fuzz> ${corpus}
      --seconds ${seconds} --malloc-limit-mb ${FUZZ_MALLOC_LIMIT_MB})
  endif()
  add_test(NAME ${name}_fuzz.runs_long COMMAND ${command})
  math(EXPR timeout "8 * ${seconds} + 300")
  set_tests_properties(${name}_fuzz.runs_long PROPERTIES LABELS "long;release;part-fuzz" TIMEOUT ${timeout}
    SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()
