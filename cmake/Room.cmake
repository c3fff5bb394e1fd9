# Flags of all targets: warnings, sanitizers, the source root as include folder.

add_library(stbench_flags INTERFACE)
# They do not reach projects that use the installed library.
set(stbench_warnings -Wall -Wextra -Wsign-conversion -Wconversion -Wshadow -Wno-missing-field-initializers)
target_include_directories(stbench_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_compile_features(stbench_flags INTERFACE cxx_std_20)
target_compile_options(stbench_flags INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${stbench_warnings}>>"
  $<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${STBENCH_WARNINGS_AS_ERRORS}>>:-Werror>>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns of overlapping copies in std::string's operator+ by mistake (GCC bug 105329, fixed in 13).
  target_compile_options(stbench_flags INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # By default g++ collects garbage from 128 MB on, dozens of times per file with LibTorch's headers. From 1.5 GB on, a file
  # takes a seventh less time (28.8 to 24.8 s, 27.1 to 22.8) and up to 0.6 GB more memory.
  target_compile_options(stbench_flags INTERFACE
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1500000>>)
endif()
if(STBENCH_SANITIZE)
  # If a target sets UNSANITIZED, its files are compiled as in the release build, and ccache reuses those.
  # AddressSanitizer reports a null dereference anyway, and accesses outside of an object. Without the checks null and vptr
  # compiling takes a seventh less (a batch of the suites: 34.6 to 30.0 s), and without the other three another third (the
  # reports: 36.7 to 23.2 s, row_moves.cpp: 80.9 to 56.6). `./test --long` has these three checks.
  set(unchecked null,vptr)
  if(NOT STBENCH_SANITIZED_PROGRAM)
    string(APPEND unchecked ",alignment,object-size,pointer-overflow")
  endif()
  # With the sanitizers g++ wrongly warns of uninitialised values inside std::regex; the release build decides.
  set(sanitized $<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:UNSANITIZED>>>>)
  target_compile_options(stbench_flags INTERFACE
    "$<${sanitized}:-g1;$<IF:$<BOOL:$<TARGET_PROPERTY:PLAIN_CODE>>,-O0,-O1>;-Wno-error>"
    "$<${sanitized}:-fsanitize=${STBENCH_SANITIZE};-fno-sanitize=${unchecked};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  target_link_options(stbench_flags INTERFACE -fsanitize=${STBENCH_SANITIZE})
endif()

# stbench_together(TARGET BATCH_SIZE [APART SOURCES...] [HEAVY SOURCES...]): compiles the target's files BATCH_SIZE at a time.
# LibTorch's headers take most of a build: 1.4 s per file for at::Tensor, 6 to 10 s for all operators or modules. HEAVY
# files include the latter and get their own batches. APART files define names in their unnamed namespaces that other files
# of the batch define too. Files with their own compile options are always apart.
#
# CMake's UNITY_BUILD does not serve: its files name the sources by absolute paths and a hash of these, so ccache could not
# share the ten heaviest compilations between two checkouts. The files here name them from the project's root.
#
# g++ inlines until a unit has grown by two fifths, not counting its first 10,000 instructions. A batch gets 10,000 per
# file; otherwise the smallest gathers take 1.2 times as long.
#
# PLAIN REGEX...: files on no measured path, by their path from the project's root. A release build compiles them with -Og, or
# with the target's PLAIN_LEVEL, in their own batches.
function(stbench_together target batch_size)
  if(STBENCH_UNITY)
    # Deferred to the end of the folder's file, when all sources and their properties are known.
    list(TRANSFORM ARGN REPLACE "(.+)" "[==[\\1]==]" OUTPUT_VARIABLE words)
    list(JOIN words " " words)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL stbench_write_batches ${target} ${batch_size} ${words})")
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      math(EXPR instructions "10000 * ${batch_size}")
      # A class of a batched file may have members of types of that file's unnamed namespace: only the batch includes it.
      target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:CXX>:--param=large-unit-insns=${instructions};-Wno-subobject-linkage>")
    endif()
  endif()
endfunction()

# STBENCH_ALONE: files that are taken out of their batches and compiled by themselves. All other batches stay as they are,
# and ccache has them. scripts/mutants uses this, because it compiles the same files again and again.
set(STBENCH_ALONE "" CACHE STRING "Files, from the project's root, that are compiled outside of their batches")

function(stbench_write_batches target batch_size)
  cmake_parse_arguments(BATCHES "" "" "APART;HEAVY;PLAIN" ${ARGN})
  list(TRANSFORM STBENCH_ALONE PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE lone)
  get_target_property(sources ${target} SOURCES)
  get_target_property(plain_level ${target} PLAIN_LEVEL)
  if(NOT plain_level)
    set(plain_level -Og)
  endif()
  foreach(kind APART HEAVY)
    set(${kind} "")
    foreach(source IN LISTS BATCHES_${kind})
      get_filename_component(path ${source} ABSOLUTE)
      list(APPEND ${kind} ${path})
    endforeach()
  endforeach()
  list(JOIN BATCHES_PLAIN "|" plain_paths)
  set(alone "")
  foreach(kind heavy light heavy_plain light_plain)
    set(${kind} "")
  endforeach()
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_filename_component(path ${source} ABSOLUTE)
    set(kind light)
    if(path IN_LIST HEAVY)
      set(kind heavy)
    endif()
    string(REPLACE "${PROJECT_SOURCE_DIR}/" "" from_root ${path})
    if(BATCHES_PLAIN AND from_root MATCHES "${plain_paths}")
      string(APPEND kind _plain)
    endif()
    if(NOT source MATCHES "\\.cpp$" OR path IN_LIST APART OR options OR definitions)
      list(APPEND alone ${source})
    else()
      list(APPEND ${kind} ${source})
    endif()
  endforeach()
  # A heavy batch with room takes light files: it has parsed what they include.
  foreach(plain "" _plain)
    list(LENGTH heavy${plain} count)
    math(EXPR room "(${batch_size} - ${count} % ${batch_size}) % ${batch_size}")
    if(count GREATER 0)
      list(SUBLIST light${plain} 0 ${room} files)
      list(APPEND heavy${plain} ${files})
      list(REMOVE_ITEM light${plain} ${files})
    endif()
  endforeach()
  foreach(kind heavy light heavy_plain light_plain)
    set(batch 0)
    while(${kind})
      list(SUBLIST ${kind} 0 ${batch_size} files)
      list(REMOVE_ITEM ${kind} ${files})
      foreach(source IN LISTS files)
        get_filename_component(path ${source} ABSOLUTE)
        if(path IN_LIST lone)
          list(REMOVE_ITEM files ${source})
          list(APPEND alone ${source})
          stbench_compile_plainly_if_so(${source} ${kind} ${plain_level})
        endif()
      endforeach()
      set(path ${CMAKE_CURRENT_BINARY_DIR}/${target}_${kind}_${batch}.cpp)
      stbench_write_batch(${path} ${files})
      stbench_compile_plainly_if_so(${path} ${kind} ${plain_level})
      list(APPEND alone ${path})
      math(EXPR batch "${batch} + 1")
    endwhile()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${alone}")
endfunction()

# A sanitizer's build sets its own levels.
function(stbench_compile_plainly_if_so source kind level)
  if(kind MATCHES "_plain$" AND NOT STBENCH_SANITIZE)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:${level}>)
  endif()
endfunction()

# A file that registers something calls the object `registration`; the batch renames it per file.
function(stbench_write_batch path)
  set(text "")
  foreach(source IN LISTS ARGN)
    get_filename_component(source ${source} ABSOLUTE)
    string(REPLACE "${CMAKE_CURRENT_BINARY_DIR}/" "" source ${source})
    string(REPLACE "${PROJECT_SOURCE_DIR}/" "" source ${source})
    string(MAKE_C_IDENTIFIER ${source} name)
    string(APPEND text "#define registration registration_${name}\n#include \"${source}\"\n#undef registration\n")
  endforeach()
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)
endfunction()

# stbench_room(NAME SOURCES... [LIBRARIES ...]): the static library of one room (or of a part of one).
function(stbench_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(${name} PUBLIC stbench_flags ${ROOM_LIBRARIES})
endfunction()

# stbench_needs(ROOM NAME TARGET PACKAGE): links a library that no public header uses. Projects that use the installed library
# need only what its programs load, such as libz.so.1 of the Debian package PACKAGE, and neither headers nor CMake's or
# pkg-config's file. They find it as speedtorch::NAME (speedtorchConfig.cmake.in).
function(stbench_needs room name target package)
  target_link_libraries(${room} PUBLIC $<BUILD_INTERFACE:${target}> $<INSTALL_INTERFACE:speedtorch::${name}>)
  get_property(known GLOBAL PROPERTY speedtorch_needs)
  if(NOT "${known}" MATCHES "(^|;)${name}:")
    stbench_loaded_name(loaded ${target})
    set_property(GLOBAL APPEND PROPERTY speedtorch_needs "${name}:${loaded}:${package}")
  endif()
endfunction()

# stbench_loaded_name(RESULT TARGET): the name under which programs load an imported library; the file's name if it is static.
function(stbench_loaded_name result target)
  get_target_property(file ${target} IMPORTED_LOCATION)
  foreach(property IMPORTED_LOCATION_RELEASE INTERFACE_LINK_LIBRARIES)
    if(NOT file)
      get_target_property(file ${target} ${property})
    endif()
  endforeach()
  execute_process(COMMAND ${CMAKE_READELF} -d ${file} OUTPUT_VARIABLE text ERROR_QUIET)
  if(text MATCHES "SONAME[^\n]*\\[([^]\n]+)\\]")
    set(name ${CMAKE_MATCH_1})
  else()
    get_filename_component(name ${file} NAME)
  endif()
  set(${result} ${name} PARENT_SCOPE)
endfunction()

# stbench_plain_code(TARGET [ONLY_SANITIZED]): compiles code that is not measured with little optimisation, and with a sanitizer
# without. -Og takes two thirds of the time of -O1 (reports: 25.9 to 16.4 s, the suites' plans and checks: 37.9 to 23.7). Use
# ONLY_SANITIZED for libraries: if several objects contain an inline function, the linker takes any of them, and what a user
# measures must be optimised. (A test program may therefore run the unoptimised copy of an inline function, and under
# AddressSanitizer the unchecked one. The kernels' bodies have none.)
function(stbench_plain_code target)
  set_target_properties(${target} PROPERTIES PLAIN_CODE ON)
  if(NOT "ONLY_SANITIZED" IN_LIST ARGN)
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Og>)
  endif()
endfunction()

# stbench_checking_code(TARGET): code that only calls and checks the libraries. It is not optimised (the largest takes 45 s
# instead of 62). AddressSanitizer checks the libraries' code, and the heap for all code. So this code is compiled as in the
# release build, and ccache reuses it. ThreadSanitizer must see both sides of a race.
function(stbench_checking_code target)
  set_target_properties(${target} PROPERTIES PLAIN_CODE ON)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O0>)
  stbench_without_address_sanitizer(${target})
endfunction()

# stbench_without_address_sanitizer(TARGET): compiles the target's own files as in the release build, if it is AddressSanitizer's.
function(stbench_without_address_sanitizer target)
  if(STBENCH_SANITIZE MATCHES address)
    set_target_properties(${target} PROPERTIES UNSANITIZED ON)
  endif()
endfunction()

# stbench_test(NAME SOURCES ... LIBRARIES ... [LABELS ...] [OPTIMISED] [HEADERS]): one GoogleTest program, as a test that runs
# it whole (label `whole`) and, without a sanitizer, each of its cases as a test (label `case`), for `./test --only`. A
# process per case (some 2,000) would spend most of its time on loading LibTorch: 20 minutes on two cores with a sanitizer.
# The summary of ./test still counts a whole program's cases, from its GTEST_OUTPUT file.
# OPTIMISED compiles the test as the library is, for plain loops over millions of elements. HEADERS says that the tested code is
# in headers, so AddressSanitizer compiles an OPTIMISED test, too: 125 s for all tests of the kernels but the CUDA bodies, 30 s for
# those with HEADERS.
# Programs labelled `long` are built only by the target long_tests, and are one test each. Those labelled `threads` start
# threads that share memory; `./test` builds and runs them with ThreadSanitizer too.
function(stbench_test name)
  cmake_parse_arguments(TEST "OPTIMISED;HEADERS" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  if(NOT TEST_OPTIMISED)
    stbench_checking_code(${name})
  elseif(NOT TEST_HEADERS)
    stbench_without_address_sanitizer(${name})
  endif()
  target_link_libraries(${name} PRIVATE stbench_flags ${TEST_LIBRARIES} test_paths GTest::gtest GTest::gtest_main)
  set(labels whole ${TEST_LABELS})
  if("long" IN_LIST TEST_LABELS)
    list(REMOVE_ITEM labels whole)  # it has no other test, also for `./test --long --only`
  endif()
  if("${TEST_LABELS}" MATCHES "(^|;)(device|release)(;|$)")
    stbench_of_release(${name})
    if(STBENCH_SANITIZE)
      return()
    endif()
  endif()
  if("device" IN_LIST TEST_LABELS AND STBENCH_HAS_CUDA AND NOT EXISTS /proc/driver/nvidia/version AND NOT EXISTS /dev/dxg)
    return()  # this machine has no GPU: tests/emulated_gpu runs it
  endif()
  if("threads" IN_LIST TEST_LABELS)
    add_dependencies(thread_tests ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  # No test moves rows by the plan that a user of this machine stored.
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800 LABELS "${labels}" ENVIRONMENT SPEEDTORCH_PLAN=fixed)
  if("long" IN_LIST TEST_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(long_tests ${name})
  endif()
  if(STBENCH_SANITIZE OR "long" IN_LIST TEST_LABELS)
    return()
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 120 TEST_LIST tests_of_${name} PROPERTIES TIMEOUT 600 ENVIRONMENT SPEEDTORCH_PLAN=fixed)
  # Labels are set afterwards: among those properties the second label of a list would be read as a property's name.
  set(of_cases case ${TEST_LABELS})
  set(labelling ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
  file(WRITE ${labelling} "foreach(test IN LISTS tests_of_${name})
  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${of_cases}\")
endforeach()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labelling})
endfunction()

# stbench_of_release(TARGET...): programs that run only in the release build; a build with a sanitizer leaves them out.
function(stbench_of_release)
  if(STBENCH_SANITIZE)
    set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# stbench_test_program(NAME SOURCES ... LIBRARIES ...): a program that tests start.
function(stbench_test_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  stbench_checking_code(${name})
  target_link_libraries(${name} PRIVATE stbench_flags ${PROGRAM_LIBRARIES})
endfunction()
