/// A folder of files that appears under its name when it is whole, or never.
#pragma once

#include <string>

#include "speedtorch/system/unfinished.h"

namespace speedtorch {

/// Until publish() it has a temporary name beside its own, by which the destructor removes it with all that
/// is in it. All functions throw FileError.
class NewFolder {
 public:
  /// Refused at once where the name is taken.
  explicit NewFolder(const std::string& path);

  /// Where the folder is now.
  [[nodiscard]] const std::string& path() const { return folder_.path(); }

  /// Waits until the names in it are on the disk and then gives it its own; never replaces another. What is
  /// open in it stays open.
  void publish();

 private:
  std::string path_;
  UnfinishedFolder folder_;
};

}  // namespace speedtorch
