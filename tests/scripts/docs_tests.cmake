# The tests of make-trace and of the documents, and the example that README.md shows.
foreach(file make_trace_test.py readme_test.py coverage_test.py ci_doc_test.py)
  stbench_python_test(${file} LABELS scripts ENVIRONMENT STBENCH_PROGRAM=$<TARGET_FILE:stbench>)
endforeach()

stbench_test_program(example_gather_rows SOURCES ${PROJECT_SOURCE_DIR}/examples/gather_rows.cpp LIBRARIES speedtorch)
add_test(NAME example_gather_rows COMMAND example_gather_rows)
set_tests_properties(example_gather_rows PROPERTIES PASS_REGULAR_EXPRESSION "^sum 524288\n$")

stbench_python_test(${CMAKE_CURRENT_LIST_DIR}/word2vec_test.py LABELS scripts release COST 100
  ENVIRONMENT STBENCH_WORD2VEC=$<TARGET_FILE:example_word2vec> STBENCH_KING_JAMES=${STBENCH_TEXT})
# A minute of training; the other tests of the example train for seconds.
set_property(TEST word2vec_test.test_related_words_of_a_real_text_are_near_each_other APPEND PROPERTY LABELS long)

stbench_test_program(example_make_tables SOURCES ${PROJECT_SOURCE_DIR}/examples/make_tables.cpp LIBRARIES speedtorch)
add_test(NAME example_make_tables COMMAND example_make_tables)
set_tests_properties(example_make_tables PROPERTIES
  PASS_REGULAR_EXPRESSION "^equal: 1\nrow 999: 999\nrefused: 512000000000000 bytes\n$")

# Twice: the second run finds the file of the first.
stbench_test_program(example_mapped_table SOURCES ${PROJECT_SOURCE_DIR}/examples/mapped_table.cpp LIBRARIES speedtorch)
set(table ${CMAKE_CURRENT_BINARY_DIR}/example_mapped_table.npy)
add_test(NAME example_mapped_table
  COMMAND sh -c "rm -f '${table}' && '$<TARGET_FILE:example_mapped_table>' '${table}' && '$<TARGET_FILE:example_mapped_table>' '${table}'")
set_tests_properties(example_mapped_table PROPERTIES
  PASS_REGULAR_EXPRESSION "^row 7 was updated 1 times\nrow 7 was updated 2 times\n$")

# The programs of the library's pages. Those that write files do it in a folder of their own.
set(library_examples ${CMAKE_CURRENT_BINARY_DIR}/library_examples)
file(MAKE_DIRECTORY ${library_examples})
function(library_example name output)
  stbench_test_program(example_${name} SOURCES ${PROJECT_SOURCE_DIR}/examples/${name}.cpp LIBRARIES speedtorch)
  add_test(NAME example_${name} COMMAND example_${name} WORKING_DIRECTORY ${library_examples})
  set_tests_properties(example_${name} PROPERTIES PASS_REGULAR_EXPRESSION "${output}")
endfunction()
library_example(cold_rows "^99999 7 7\n$")
library_example(co_occurrence "^42 follows 41 100 times\n$")
library_example(data_gadget "^sum 784000\nsum 783216\n$")
library_example(duplicates "^row 3 got the gradient 3 times\nrow 3 was named 3 times\nrow 3: at 0 and 2\n$")
library_example(memory_plan "^books: 5614428352 bytes, device\nbooks state 1: 5614428352 bytes, device\nbooks state 2: 5614428352 bytes, mapped\nin all: .*'books state 2' needs 5614428352 bytes; device has ")
library_example(model_factory "^learned: 1\n$")
library_example(contiguous_training "epoch 200 loss 0[.]0[0-9]*\n$")
library_example(train_by_plan "words: [^\n]*, hugepage\nwords state 1: [^\n]*, hugepage\nwords state 2: [^\n]*, mapped\n.*as if it had not been interrupted: 1\nlearned: 1\n$")
library_example(sparse_rows "^rows used are ones: yes\nothers are zeros: yes\n$")
library_example(optimizer_factory "^400 steps, every element within 0.1 of 1: yes\n$")
