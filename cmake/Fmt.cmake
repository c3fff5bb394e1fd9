# LibTorch's include folder brings an fmt of its own, which hides the package's wherever both are seen. A folder with the
# package's headers alone goes first, so that its compiled library serves: header-only it was 2.7 of the 9.2 s that a file
# of the suites took to compile.

find_package(fmt REQUIRED)
get_target_property(fmt_folders fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED HINTS ${fmt_folders})
mark_as_advanced(FMT_INCLUDE_DIR)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${FMT_INCLUDE_DIR}/fmt ${PROJECT_BINARY_DIR}/include/fmt SYMBOLIC)
# CUDA files include no fmt. nvcc would get the folder as `-isystem=PATH`, where ccache does not recognise a path of the
# checkout, so another checkout would compile them again.
include_directories(BEFORE SYSTEM $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_BINARY_DIR}/include>)
