# The tests of make-trace and of the documents, and the example that README.md shows.
foreach(file make_trace_test.py readme_test.py coverage_test.py ci_doc_test.py)
  stbench_python_test(${file} LABELS scripts)
endforeach()
get_property(of_the_program DIRECTORY PROPERTY TESTS)
list(FILTER of_the_program INCLUDE REGEX "^(make_trace_test|readme_test|ci_doc_test)[.]")
set_property(TEST ${of_the_program} APPEND PROPERTY ENVIRONMENT STBENCH_PROGRAM=$<TARGET_FILE:stbench>)

add_executable(example_gather_rows ${PROJECT_SOURCE_DIR}/examples/gather_rows.cpp)
target_link_libraries(example_gather_rows PRIVATE stbench_flags speedtorch)
add_test(NAME example_gather_rows COMMAND example_gather_rows)
set_tests_properties(example_gather_rows PROPERTIES PASS_REGULAR_EXPRESSION "^sum 524288\n$")
