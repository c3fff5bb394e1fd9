/// A file that is written from its beginning to its end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "speedtorch/system/new_file.h"

namespace word2vec {

/// Replaces the file of its name once it is whole. Until then the old one stays. All functions throw
/// speedtorch::FileError.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path) : file_(path) {}

  void append(std::string_view bytes) {
    file_.file().write(bytes, end_);
    end_ += static_cast<std::int64_t>(bytes.size());
  }
  void publish() { file_.publish(); }

 private:
  speedtorch::Replacement file_;
  std::int64_t end_ = 0;
};

}  // namespace word2vec
