# Writes OUTPUT from TEMPLATE, at each build: the git revision of SOURCE_DIR and whether it is dirty, and what the
# configuration says of the compiler. OUTPUT is touched only where its text changes. Where SOURCE_DIR is no checkout (a
# release archive), REVISION stands in; "…-dirty" says that it was dirty.
set(GIT_REVISION "")
set(GIT_DIRTY false)
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse HEAD
    OUTPUT_VARIABLE GIT_REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(GIT_REVISION "")   # no commit yet, or git distrusts the folder's owner
  else()
    execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes ERROR_QUIET)
    if(NOT changes STREQUAL "")
      set(GIT_DIRTY true)
    endif()
  endif()
endif()
if(GIT_REVISION STREQUAL "" AND REVISION MATCHES "^([0-9a-f]+)(-dirty)?$")
  set(GIT_REVISION ${CMAKE_MATCH_1})
  if(CMAKE_MATCH_2)
    set(GIT_DIRTY true)
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
