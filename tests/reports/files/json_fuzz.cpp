/// The fuzz target of the readers of JSON reports and of the lines of --events (reader_fuzz.h); the first
/// characters tell them apart, as in read_report(). libFuzzer calls it where clang is found, and
/// replay_corpus.cpp with the committed corpus.
#include <cstddef>
#include <cstdint>

#include "reports/files/events.h"
#include "tests/reports/reader_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stbench::reports;
  const auto to_events = [](const Report& report) { return EventLines().end(report); };
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (are_events(text)) {
    fuzz_reader(text, to_events, from_events);
  } else {
    fuzz_reader(text, to_json, from_json);
  }
  return 0;
}
