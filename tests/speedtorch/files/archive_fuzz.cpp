/// The fuzz target of the check that every checkpoint passes first. Any bytes are either a whole archive
/// whose entries match their checksums, or a FileError that names the file.
#include "speedtorch/files/archive.h"
#include "tests/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using stbench::test::require;
  const stbench::test::MemoryFile file(stbench::test::text_of(data, size));
  try {
    speedtorch::check_archive(file.path(), "is no archive");
    require(size >= 22, "an archive has at least the record that ends it");
  } catch (const speedtorch::FileError& error) {
    const std::string_view message = error.what();
    require(message.starts_with("'") && message.find("is no archive: ") != std::string_view::npos,
            "a refusal names the file and says why");
  }
  return 0;
}
