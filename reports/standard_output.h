/// The standard streams of a program that writes files.
#pragma once

#include <string_view>

namespace stbench::reports {

/// Opens /dev/null on each of the descriptors 0 to 2 that is closed. Otherwise the next file to be opened, a
/// report for instance, gets the number, and what is printed is written into it. A closed standard output
/// stays one that cannot be written. A program calls this before it opens a file.
void reserve_standard_descriptors();

/// True if the standard output is closed, or open for reading only.
bool standard_output_is_closed();

/// @throws ReportError if the standard output is closed.
void require_standard_output();

/// Writes the text to the standard output, at once.
/// @throws ReportError naming the standard output and the system's reason if not all of it could be written.
void write_standard_output(std::string_view text);

/// Writes the whole text, however often the system takes a part only. @returns 0, or the error's errno
int write_whole(int descriptor, std::string_view text);

}  // namespace stbench::reports
