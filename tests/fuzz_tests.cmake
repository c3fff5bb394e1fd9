# The fuzz targets, in one folder: several share files. tests/make_text_corpora.py, tests/reports/make_report_corpus.py and, in
# tests/speedtorch/files, make_npy_corpus.py, make_safetensors_corpus.py and make_archive_corpus.py make the corpora;
# `found-*` are inputs that a fuzzer found.
include(Fuzz)
file(GLOB_RECURSE reports RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reports/*.cpp)
foreach(file files/csv files/json compare/baseline compare/calibration)
  get_filename_component(name ${file} NAME)
  stbench_fuzz_target(${name} LABELS reports SOURCES tests/reports/${file}_fuzz.cpp tests/reports/suites.cpp ${reports}
    LIBRARIES reports test_paths)
endforeach()
set(npy speedtorch/files/npy.cpp speedtorch/files/npy_array.cpp)
stbench_fuzz_target(npy SOURCES tests/speedtorch/files/npy_fuzz.cpp ${npy} LIBRARIES npy)
stbench_fuzz_target(safetensors SOURCES tests/speedtorch/files/safetensors_fuzz.cpp speedtorch/files/safetensors.cpp LIBRARIES safetensors)
stbench_fuzz_target(plan CPU_SECONDS 60 SOURCES tests/speedtorch/rows/plan_fuzz.cpp speedtorch/rows/plan_text.cpp LIBRARIES speedtorch)
set(words harness/numbers.cpp harness/suggest.cpp)
stbench_fuzz_target(index SOURCES tests/harness/index_fuzz.cpp harness/distribution.cpp ${words} ${npy} LIBRARIES harness)
stbench_fuzz_target(case_id SOURCES tests/harness/case_id_fuzz.cpp harness/case_id.cpp ${words} LIBRARIES harness)
stbench_fuzz_target(archive LABELS libtorch SOURCES tests/speedtorch/files/archive_fuzz.cpp speedtorch/files/archive.cpp LIBRARIES speedtorch)
if(STBENCH_HAS_PROGRAM)
  set(of_options program/command_line program/compare_command program/option_table program/output_paths)
  list(TRANSFORM of_options REPLACE "(.+)" "benchmarks/\\1.cpp")
  stbench_fuzz_target(options LABELS benchmarks LIBRARIES program MALLOC_LIMIT_MB 64
    SOURCES tests/benchmarks/program/options_fuzz.cpp ${of_options} ${words} harness/pattern.cpp
    OBJECTS $<TARGET_OBJECTS:suites> $<TARGET_OBJECTS:program>)
endif()
