/// A folder of files that appears under its name once it is whole, or never.
#pragma once

#include <string>

#include "speedtorch/system/unfinished.h"

namespace speedtorch {

/// Until publish() the folder has a temporary name beside its own. The destructor removes it with its
/// contents. All functions throw FileError.
class NewFolder {
 public:
  /// Fails at once if the name is taken.
  explicit NewFolder(const std::string& path);

  /// The folder's current path.
  [[nodiscard]] const std::string& path() const { return folder_.path(); }

  /// Waits until the names in the folder are on the disk and then gives it its own name. Never replaces
  /// another folder. Open files in it stay open.
  void publish();

 private:
  std::string path_;
  UnfinishedFolder folder_;
};

}  // namespace speedtorch
