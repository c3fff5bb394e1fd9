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

stbench_python_test(${CMAKE_CURRENT_LIST_DIR}/word2vec_test.py LABELS scripts release)
get_property(of_word2vec DIRECTORY PROPERTY TESTS)
list(FILTER of_word2vec INCLUDE REGEX "^word2vec_test[.]")
set_property(TEST ${of_word2vec} APPEND PROPERTY ENVIRONMENT
  STBENCH_WORD2VEC=$<TARGET_FILE:example_word2vec> STBENCH_KING_JAMES=${STBENCH_TEXT})

add_executable(example_make_tables ${PROJECT_SOURCE_DIR}/examples/make_tables.cpp)
target_link_libraries(example_make_tables PRIVATE stbench_flags speedtorch)
add_test(NAME example_make_tables COMMAND example_make_tables)
set_tests_properties(example_make_tables PROPERTIES
  PASS_REGULAR_EXPRESSION "^equal: 1\nrow 999: 999\nrefused: 512000000000000 bytes\n$")

# Twice: the second run finds the file of the first.
add_executable(example_mapped_table ${PROJECT_SOURCE_DIR}/examples/mapped_table.cpp)
target_link_libraries(example_mapped_table PRIVATE stbench_flags speedtorch)
set(table ${CMAKE_CURRENT_BINARY_DIR}/example_mapped_table.npy)
add_test(NAME example_mapped_table
  COMMAND sh -c "rm -f '${table}' && '$<TARGET_FILE:example_mapped_table>' '${table}' && '$<TARGET_FILE:example_mapped_table>' '${table}'")
set_tests_properties(example_mapped_table PROPERTIES
  PASS_REGULAR_EXPRESSION "^row 7 was updated 1 times\nrow 7 was updated 2 times\n$")

add_executable(example_contiguous_training ${PROJECT_SOURCE_DIR}/examples/contiguous_training.cpp)
target_link_libraries(example_contiguous_training PRIVATE stbench_flags speedtorch)
add_test(NAME example_contiguous_training COMMAND example_contiguous_training)
set_tests_properties(example_contiguous_training PROPERTIES PASS_REGULAR_EXPRESSION "epoch 200 loss 0[.]0[0-9]*\n$")
add_executable(example_sparse_rows ${PROJECT_SOURCE_DIR}/examples/sparse_rows.cpp)
target_link_libraries(example_sparse_rows PRIVATE stbench_flags speedtorch)
add_test(NAME example_sparse_rows COMMAND example_sparse_rows)
set_tests_properties(example_sparse_rows PROPERTIES
  PASS_REGULAR_EXPRESSION "^rows used are ones: yes\nothers are zeros: yes\n$")

add_executable(example_optimizer_factory ${PROJECT_SOURCE_DIR}/examples/optimizer_factory.cpp)
target_link_libraries(example_optimizer_factory PRIVATE stbench_flags speedtorch)
add_test(NAME example_optimizer_factory COMMAND example_optimizer_factory)
set_tests_properties(example_optimizer_factory PROPERTIES
  PASS_REGULAR_EXPRESSION "^400 steps, every element within 0.1 of 1: yes\n$")
