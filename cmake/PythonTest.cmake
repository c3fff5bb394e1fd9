# stbench_python_test(FILE [LABELS ...] [ENVIRONMENT NAME=VALUE...] [TIMEOUT SECONDS] [COST SECONDS] [LONG METHOD...]
# [RELEASE METHOD...]): a unittest file, as a test that runs it whole (label `whole`) and, without a sanitizer, each of its
# methods as a test (label `case`), for `./test --only`. A process per method (some 400) would spend most of its time on
# starting: importing torch takes 2.6 s of CPU, a test of the optimizers 1 to 4 s. The summary of ./test still counts a
# file's methods (tests/run_unittest.py).
#
# LONG methods run only with `./test --long`, each as a separate test. RELEASE methods do not run with a sanitizer. Files of
# the highest cost (default 0) begin first: a file of two minutes that begins last leaves the other cores idle.
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
  # Files in a subfolder import modules from the folder that lists them.
  # No test measures the machine first or uses a plan that a user stored.
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
