/// For a program that was built without liburing.
#include "speedtorch/files/file_reads.h"

namespace speedtorch {

std::unique_ptr<FileReader> make_ring_reader(int /*depth*/, std::string& why) {
  why = "this program was built without liburing";
  return nullptr;
}

}  // namespace speedtorch
