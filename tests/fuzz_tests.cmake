# The fuzz targets, in one folder: several share files. tests/make_text_corpora.py, tests/reports/make_report_corpus.py,
# tests/speedtorch/make_npy_corpus.py and make_archive_corpus.py make the corpora; `found-*` are inputs that a fuzzer found.
include(Fuzz)
file(GLOB reports RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reports/*.cpp)
foreach(name csv json baseline calibration)
  stbench_fuzz_target(${name} LABELS reports SOURCES tests/reports/${name}_fuzz.cpp ${reports} LIBRARIES reports)
endforeach()
set(npy speedtorch/npy.cpp speedtorch/npy_array.cpp)
stbench_fuzz_target(npy SOURCES tests/speedtorch/npy_fuzz.cpp ${npy} LIBRARIES npy)
set(words harness/numbers.cpp harness/suggest.cpp)
stbench_fuzz_target(index SOURCES tests/harness/index_fuzz.cpp harness/distribution.cpp ${words} ${npy} LIBRARIES harness)
stbench_fuzz_target(sentence SOURCES tests/harness/sentence_fuzz.cpp harness/sentence.cpp ${words} LIBRARIES harness)
stbench_fuzz_target(archive LABELS libtorch SOURCES tests/speedtorch/archive_fuzz.cpp speedtorch/archive.cpp LIBRARIES speedtorch)
if(STBENCH_HAS_PROGRAM)
  set(of_options command_line comparison_options output_paths)
  list(TRANSFORM of_options REPLACE "(.+)" "benchmarks/\\1.cpp")
  stbench_fuzz_target(options LABELS benchmarks LIBRARIES program MALLOC_LIMIT_MB 64
    SOURCES tests/benchmarks/options_fuzz.cpp ${of_options} ${words} harness/pattern.cpp
    OBJECTS $<TARGET_OBJECTS:suites> $<TARGET_OBJECTS:program>)
endif()
