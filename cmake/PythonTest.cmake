# stbench_python_test(FILE [LABELS ...] [ENVIRONMENT NAME=VALUE...] [TIMEOUT SECONDS] [COST SECONDS] [LONG METHOD...]
# [RELEASE METHOD...]): a unittest file, as a test that runs it whole (label `whole`) and, without a sanitizer, each of its
# methods as a test (label `case`), for `./test --only`. A process for each of some 400 methods spends most of its time on
# starting: 2.6 s of CPU to import torch, where the tests of the optimizers need 1 to 4. The summary of ./test counts a
# file's methods all the same (tests/run_unittest.py).
#
# LONG methods run with `./test --long` only, each as a test of its own; RELEASE methods not with a sanitizer. Files of the
# highest cost (default 0) begin first: one of two minutes that begins last keeps one core busy and the others waiting.
# Without STBENCH_PYTHON the python3 on the PATH runs it.
function(stbench_python_test file)
  cmake_parse_arguments(TEST "" "TIMEOUT;COST" "LABELS;ENVIRONMENT;LONG;RELEASE" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 600)
  endif()
  set(python ${STBENCH_PYTHON})
  if(NOT python)
    find_program(STBENCH_PYTHON_ON_PATH python3 REQUIRED)
    set(python ${STBENCH_PYTHON_ON_PATH})
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  get_filename_component(path ${file} ABSOLUTE)
  get_filename_component(name ${file} NAME_WE)
  # Files of a folder below take modules from the one that lists them.
  # No test measures the machine first, nor moves rows by what a user of it stored.
  set(environment "SPEEDTORCH_PLAN=fixed;PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR};${TEST_ENVIRONMENT}")
  if(TARGET warm_start)
    list(APPEND environment STBENCH_WARM_START=$<TARGET_FILE:warm_start>)
  endif()
  set(left_out ${TEST_LONG})
  if(STBENCH_SANITIZE)
    list(APPEND left_out ${TEST_RELEASE})
  endif()
  add_test(NAME ${name} COMMAND ${python} ${PROJECT_SOURCE_DIR}/tests/run_unittest.py ${path} ${left_out})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800 LABELS "whole;${TEST_LABELS}" ENVIRONMENT "${environment}")
  if(TEST_COST)
    set_tests_properties(${name} PROPERTIES COST ${TEST_COST})
  endif()
  if(STBENCH_SANITIZE)
    return()
  endif()
  file(STRINGS ${path} methods REGEX "^ +def test_")
  foreach(method IN LISTS methods)
    string(REGEX REPLACE "^ +def (test_[A-Za-z0-9_]+).*" "\\1" method "${method}")
    set(kind case)
    if(method IN_LIST TEST_LONG)
      set(kind long)
    endif()
    add_test(NAME ${name}.${method} COMMAND ${python} ${path} -v -k ${method})
    set_tests_properties(${name}.${method} PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${kind};${TEST_LABELS}"
      SKIP_REGULAR_EXPRESSION "skipped '" ENVIRONMENT "${environment}")
  endforeach()
endfunction()
