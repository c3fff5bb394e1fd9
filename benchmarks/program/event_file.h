/// The file of --events: written line by line while the run goes on.
#pragma once

#include <string>

#include "reports/files/events.h"
#include "speedtorch/system/descriptor.h"

namespace stbench {

class EventFile {
 public:
  /// "-" is stdout. What is in the file stays until the first line. @throws reports::ReportError where it
  /// cannot be written.
  explicit EventFile(std::string path);
  /// Removes a file that was made for nothing.
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Writes the lines for what the report has more or other than at the last call; they are the system's when
  /// this returns, so the end of the process does not take them. A failure is kept for end().
  void update(const reports::Report& report);

  /// The same, and the last line. @throws reports::ReportError where not all could be written.
  void end(const reports::Report& report);

 private:
  void append(const std::string& lines);

  std::string path_;
  std::string made_;    ///< the file, if it was not there before
  bool begun_ = false;  ///< there are lines in it
  speedtorch::Descriptor file_;
  reports::EventLines lines_;
  int error_ = 0;  ///< the first, after which nothing more is written
};

}  // namespace stbench
