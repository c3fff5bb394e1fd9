/// The fuzz target of the reader of JSON reports (reader_fuzz.h). libFuzzer calls it where clang is found,
/// and replay_corpus.cpp with the committed corpus.
#include <cstddef>
#include <cstdint>

#include "tests/reports/reader_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stbench::reports;
  fuzz_reader({reinterpret_cast<const char*>(data), size}, to_json, from_json);
  return 0;
}
