/// The kernel's small text files: the library's reader (speedtorch/system/system_files.h) by this room's
/// names.
#pragma once

#include "speedtorch/system/system_files.h"

namespace stbench::harness {

using speedtorch::leading_number;
using speedtorch::number_list;
using speedtorch::read_file;
using speedtorch::SystemFiles;

}  // namespace stbench::harness
