/// Folders and files of this checkout and build. Only paths.cpp holds them, so that ccache can share the
/// other compilations between checkouts.
#pragma once

namespace stbench {

/// The scripts of the peer processes.
extern const char* const peers_folder;
/// The text that the embedding suite trains on unless --text names one.
extern const char* const default_text;

}  // namespace stbench
