# stbench_python_test(FILE [LABELS ...] [ENVIRONMENT NAME=VALUE...] [TIMEOUT SECONDS] [COST SECONDS]): each test method of a unittest file as a test
# of its own, so that one that is skipped is seen as skipped. Those of the highest cost (default 0) begin first: one of
# two minutes that begins last keeps one core busy and the others waiting. Without STBENCH_PYTHON the python3 on the PATH
# runs it.
function(stbench_python_test file)
  cmake_parse_arguments(TEST "" "TIMEOUT;COST" "LABELS;ENVIRONMENT" ${ARGN})
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
  file(STRINGS ${path} methods REGEX "^ +def test_")
  foreach(method IN LISTS methods)
    string(REGEX REPLACE "^ +def (test_[A-Za-z0-9_]+).*" "\\1" method "${method}")
    add_test(NAME ${name}.${method} COMMAND ${python} ${path} -v -k ${method})
    set_tests_properties(${name}.${method} PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABELS}"
      SKIP_REGULAR_EXPRESSION "skipped '" ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;${TEST_ENVIRONMENT}")
    if(TEST_COST)
      set_tests_properties(${name}.${method} PROPERTIES COST ${TEST_COST})
    endif()
  endforeach()
endfunction()
