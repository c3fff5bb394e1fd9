/// Zip archives of torch's formats, held against what is in them before LibTorch reads them. For the
/// library's own files.
///
/// LibTorch's reader compares no checksums, and allocates what a damaged directory asks for.
#pragma once

#include <exception>
#include <string>

#include "speedtorch/error.h"

namespace speedtorch {

/// Reads the file once. Archives that were written without checksums
/// (torch.serialization.set_crc32_options(False)) have zeros in their places: of those, the sizes alone are
/// compared.
/// @param why what the message says of the file, as in "cannot be read as torch's format"
/// @throws FileError naming the file and the entry that is cut off, larger than the file can hold, or does
/// not have the checksum (CRC-32) that the archive has of it
void check_archive(const std::string& path, const std::string& why);

/// @throws FileError, always: "'<base name>' <why>: <the error's first line>"
[[noreturn]] void refuse_archive(const std::string& path, const std::string& why,
                                 const std::exception& error);

/// What `read()` returns, of an archive that is checked first. All of LibTorch's errors become FileErrors;
/// those of this library pass.
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
