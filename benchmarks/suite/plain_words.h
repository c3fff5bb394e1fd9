/// Texts of other programs in our reports.
#pragma once

#include <string>
#include <string_view>

namespace stbench {

/// A text of a peer as one line for a report: printable ASCII, bounded, without folders.
///
/// A path becomes its last part if that is a file of a program's, else `...`: a folder may be named after a
/// person. A quoted absolute path is taken as a whole, spaces and all; any other ends at a space.
std::string plain_words(std::string_view text);

}  // namespace stbench
