/// Checks zip archives of torch's formats before LibTorch reads them. For the library's own files.
///
/// LibTorch's reader compares no checksums, and allocates whatever a damaged directory asks for.
#pragma once

#include <exception>
#include <string>

#include "speedtorch/error.h"

namespace speedtorch {

/// Reads the file once and checks sizes and checksums. Archives written without checksums
/// (torch.serialization.set_crc32_options(False)) have zeros in their place: of those it compares the sizes
/// alone.
/// @param why the message's words about the file, as in "cannot be read as torch's format"
/// @throws FileError naming the file and the entry that is cut off, larger than the file, or unequal to its
/// checksum (CRC-32)
void check_archive(const std::string& path, const std::string& why);

/// @throws FileError always: "'<base name>' <why>: <the error's first line>"
[[noreturn]] void refuse_archive(const std::string& path, const std::string& why,
                                 const std::exception& error);

/// Checks the archive and then returns `read()`. Turns all of LibTorch's errors into FileErrors and passes
/// this library's errors on.
template <class Read>
auto read_archive(const std::string& path, const std::string& why, Read read) {
  check_archive(path, why);
  try {
    return read();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse_archive(path, why, error);
  }
}

}  // namespace speedtorch
