# The tests of make-trace and of the documents, and the example that README.md shows.
foreach(file make_trace_test.py readme_test.py coverage_test.py ci_doc_test.py)
  stbench_python_test(${file} LABELS scripts ENVIRONMENT STBENCH_PROGRAM=$<TARGET_FILE:stbench>)
endforeach()

# The programs of examples/, bin/example_NAME. Each compiled by itself parses LibTorch's headers anew, 340 s in all, so they are
# one program that does what the example does by whose name it is called. The preset dev compiles each by itself, as users do.
set(examples cold_rows co_occurrence contiguous_training data_gadget digits/digits duplicates gather_rows infinity_batch
  make_tables mapped_table memory_plan model_factory optimizer_factory row_cache shared_table sparse_rows
  train_by_plan)  # the last: its constants' names are others' variables
set(example ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/example_)
function(stbench_examples_as_one_program)
  set(text "")
  set(calls "")
  set(links "")
  foreach(path IN LISTS examples)
    get_filename_component(name ${path} NAME)
    string(APPEND text "#define main main_of_${name}\n#include \"examples/${path}.cpp\"\n#undef main\n")
    string(APPEND calls "  if (name == \"example_${name}\") return call(main_of_${name}, argc, argv);\n")
    list(APPEND links COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:examples> ${example}${name})
  endforeach()
  string(APPEND text "namespace {
int call(int (*example)(), int, char**) { return example(); }
int call(int (*example)(int, char**), int argc, char** argv) { return example(argc, argv); }
}  // namespace
int main(int argc, char** argv) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
${calls}  std::cerr << name << \" is no example\\n\";
  return 2;
}
")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/examples.cpp CONTENT "${text}" @ONLY)
  stbench_test_program(examples SOURCES ${CMAKE_CURRENT_BINARY_DIR}/examples.cpp LIBRARIES infinity)
  add_custom_command(TARGET examples POST_BUILD ${links} VERBATIM)
  stbench_precompiled(examples)
endfunction()
if(STBENCH_UNITY)
  stbench_examples_as_one_program()
else()
  foreach(path IN LISTS examples)
    get_filename_component(name ${path} NAME)
    stbench_test_program(example_${name} SOURCES ${PROJECT_SOURCE_DIR}/examples/${path}.cpp LIBRARIES infinity)
  endforeach()
endif()

# Those that write files do it in a folder of their own.
set(examples_folder ${CMAKE_CURRENT_BINARY_DIR}/library_examples)
file(MAKE_DIRECTORY ${examples_folder})
function(library_example name output)
  add_test(NAME example_${name} COMMAND ${example}${name} WORKING_DIRECTORY ${examples_folder})
  set_tests_properties(example_${name} PROPERTIES PASS_REGULAR_EXPRESSION "${output}")
endfunction()
library_example(cold_rows "^99999 7 7\n$")
library_example(co_occurrence "^42 follows 41 100 times\n$")
library_example(contiguous_training "epoch 200 loss 0[.]0[0-9]*\n$")
library_example(data_gadget "^sum 784000\nsum 783216\n$")
library_example(duplicates "^row 3 got the gradient 3 times\nrow 3 was named 3 times\nrow 3: at 0 and 2\n$")
library_example(gather_rows "^sum 524288\n$")
library_example(infinity_batch "^more than 95 % are right\n$")
library_example(make_tables "^equal: 1\nrow 999: 999\nrefused: 512000000000000 bytes\n$")
library_example(memory_plan "^books: 5614428352 bytes, device\nbooks state 1: 5614428352 bytes, device\nbooks state 2: 5614428352 bytes, mapped\nin all: .*'books state 2' needs 5614428352 bytes; device has ")
library_example(model_factory "^learned: 1\n$")
library_example(optimizer_factory "^400 steps, every element within 0.1 of 1: yes\n$")
library_example(row_cache "^99999 3 hits of 6\n$")
library_example(shared_table "^row 3 is 2\n$")
library_example(sparse_rows "^rows used are ones: yes\nothers are zeros: yes\n$")
library_example(train_by_plan "words: [^\n]*, hugepage\nwords state 1: [^\n]*, hugepage\nwords state 2: [^\n]*, mapped\n.*as if it had not been interrupted: 1\nlearned: 1\n$")

stbench_python_test(${CMAKE_CURRENT_LIST_DIR}/digits_test.py LABELS scripts ENVIRONMENT STBENCH_DIGITS=${example}digits)
# Twice: the second run finds the file of the first.
set(table ${CMAKE_CURRENT_BINARY_DIR}/example_mapped_table.npy)
add_test(NAME example_mapped_table
  COMMAND sh -c "rm -f '${table}' && '${example}mapped_table' '${table}' && '${example}mapped_table' '${table}'")
set_tests_properties(example_mapped_table PROPERTIES
  PASS_REGULAR_EXPRESSION "^row 7 was updated 1 times\nrow 7 was updated 2 times\n$")

stbench_python_test(${CMAKE_CURRENT_LIST_DIR}/word2vec_test.py LABELS scripts release COST 100
  ENVIRONMENT STBENCH_WORD2VEC=$<TARGET_FILE:example_word2vec> STBENCH_KING_JAMES=${STBENCH_TEXT}
  # A minute of training; the other tests of the example train for seconds.
  LONG test_related_words_of_a_real_text_are_near_each_other)
