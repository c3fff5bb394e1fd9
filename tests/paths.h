/// Folders and files of this checkout and build. Only paths.cpp holds them, so that ccache can share the
/// tests' other compilations between checkouts.
#pragma once

#include <string>

namespace stbench::test {

/// The project's folder, without a slash at its end.
std::string source_folder();

/// A library that answers as a driver's NVML does (tests/harness/fake_nvml.cpp).
std::string fake_nvml();

}  // namespace stbench::test
