# LibTorch's include folder contains its own fmt, which would hide the package's. A folder with only the package's headers
# comes first, so that the package's compiled library is used. Header-only fmt took 2.7 of the 9.2 s of compiling a file of
# the suites.

find_package(fmt REQUIRED)
get_target_property(fmt_folders fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED HINTS ${fmt_folders})
mark_as_advanced(FMT_INCLUDE_DIR)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${FMT_INCLUDE_DIR}/fmt ${PROJECT_BINARY_DIR}/include/fmt SYMBOLIC)
# CUDA files do not include fmt and do not get the folder. nvcc would get it as `-isystem=PATH`, in which ccache does not
# recognise a path of the checkout, so another checkout would compile them again.
include_directories(BEFORE SYSTEM $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_BINARY_DIR}/include>)
