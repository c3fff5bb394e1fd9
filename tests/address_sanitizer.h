/// Whether AddressSanitizer watches this program. Test code is compiled without it and linked with libraries that are
/// compiled with it, so __SANITIZE_ADDRESS__ does not tell.
#pragma once

/// Of the sanitizer's run time; null in programs without it.
extern "C" void __asan_init() __attribute__((weak));

namespace stbench::test {

inline bool under_address_sanitizer() { return __asan_init != nullptr; }

}  // namespace stbench::test
