/// How the holder of a shared table hands the descriptors of its memory to other processes of its user: over
/// an abstract Unix socket, which has no file and ends with its process. No LibTorch.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// What a holder tells of its table: the bytes that travel. Each version begins with `mark` and `version`.
/// Change the version with this structure or with the memory of RowLocks.
struct SharedOffer {
  static constexpr std::uint64_t kMark = 0x7372616873627473;  // "stbshars" in the order of its bytes
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::size_t kDimensions = 32;  ///< the most that a shared table has

  std::uint64_t mark = kMark;
  std::uint32_t version = kVersion;
  std::uint8_t dtype = 0;      ///< of at::ScalarType
  std::uint8_t placement = 0;  ///< of Placement
  std::uint8_t writers = 0;    ///< of Writers
  std::uint8_t dimensions = 0;
  std::int64_t offset = 0;  ///< of the first element in the file of the rows
  std::int64_t bytes = 0;   ///< of the memory from there on
  std::int64_t locks = 0;   ///< the number of RowLocks; 0 if only the holder writes
  std::array<std::int64_t, kDimensions> sizes{};
};

/// @throws OptionError unless the name has 1 to 80 bytes without control characters
void require_shared_name(const std::string& name);

/// The table as messages name it.
std::string shared_title(const std::string& name);

/// The abstract address of a table of this process's user, with its leading NUL; for tests.
std::string shared_address(const std::string& name);

/// Answers each process of this user that asks for the table, on a thread of its own, until it is destroyed.
/// A forked child has neither the thread nor the socket: so the name is free once this process has ended.
class Handover {
 public:
  /// @param descriptors of the rows and, if there are locks, of these; they stay the caller's and open
  /// @throws NameError if a process holds a table of this name; SharingError if the system gives no socket;
  /// ThreadError
  Handover(std::string name, const SharedOffer& offer, std::vector<int> descriptors);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  /// True in a forked child, which must leak this object: its thread and socket are not there.
  [[nodiscard]] bool is_of_parent() const;

 private:
  void serve();
  void answer();
  void send_to(int peer) const;

  std::string name_;
  SharedOffer offer_;
  std::vector<int> descriptors_;
  pid_t owner_;
  Descriptor stop_;
  int socket_;  ///< listed in handover.cpp, so that forked children close it
  std::thread thread_;
};

/// What an asking process got.
struct Received {
  SharedOffer offer;
  pid_t holder = 0;
  Descriptor rows, locks;
};

/// Asks for a table, and waits until a process holds it and has answered.
/// @param timeout for the holder to appear, and, 1 s at least, to answer; 0 asks once
/// @throws NameError if no process of this user holds the table in time; SharingError if the holder ends,
/// does not answer or has another version; AccessError if the holder is another user's
Received receive_table(const std::string& name, std::chrono::milliseconds timeout);

}  // namespace speedtorch
