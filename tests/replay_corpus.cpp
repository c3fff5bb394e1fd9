/// Calls a fuzz target once with each file of a folder: what the fuzzer does with a corpus, for every
/// compiler.
///
/// usage: replay_corpus FOLDER
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    // Exactly as long as the file: a read behind its end is then one that the address sanitizer sees.
    std::vector<std::uint8_t> content{std::istreambuf_iterator<char>(file), {}};
    content.shrink_to_fit();
    LLVMFuzzerTestOneInput(content.data(), content.size());
    ++files;
  }
  std::cout << "replayed " << files << " files\n";
  return files > 0 ? 0 : 1;
}
