/// How the holder of a shared table hands the descriptors of its memory to other processes of its user: over
/// an abstract Unix socket, which has no file and ends with its process. No LibTorch.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// The holder's description of its table, as it travels. Each version begins with `mark` and `version`.
/// Change the version with this structure or with the memory of RowLocks.
struct SharedOffer {
  static constexpr std::uint64_t kMark = 0x7372616873627473;  // "stbshars" in the order of its bytes
  static constexpr std::uint32_t kVersion = 2;
  static constexpr std::size_t kDimensions = 32;  ///< the most that a shared table has

  std::uint64_t mark = kMark;
  std::uint32_t version = kVersion;
  std::uint8_t dtype = 0;      ///< of at::ScalarType
  std::uint8_t placement = 0;  ///< of Placement
  std::uint8_t writers = 0;    ///< of Writers
  std::uint8_t dimensions = 0;
  std::int32_t error = 0;   ///< the system's number if it refused to send the descriptors
  std::int32_t unused = 0;  ///< for the alignment
  std::int64_t offset = 0;  ///< of the first element in the file of the rows
  std::int64_t bytes = 0;   ///< of the memory from there on
  std::int64_t locks = 0;   ///< the number of RowLocks; 0 if only the holder writes
  std::array<std::int64_t, kDimensions> sizes{};
};

/// The longest that a process waits for a holder, its answer, or a lock.
constexpr std::chrono::milliseconds kLongestWait{1'000'000'000};

/// @throws OptionError naming `what` unless the time is 0 to kLongestWait
void require_wait(const std::string& what, std::chrono::milliseconds time);

/// @throws OptionError unless the name has 1 to 80 bytes without control characters
void require_shared_name(const std::string& name);

/// The table as messages name it.
std::string shared_title(const std::string& name);

/// A holder listens at one address for processes that read, and if others may write, at one for those.
enum class Asker { reader, writer };

/// An abstract address of a Unix socket.
struct SocketAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// The address at which this user's holder of a table listens.
SocketAddress shared_address(const std::string& name, Asker asker = Asker::reader);

/// The descriptors that a holder hands over. They stay the caller's, and open.
struct HandedDescriptors {
  int reading = -1;  ///< of the rows, open for reading only
  int writing = -1;  ///< of the rows; -1 if the holder alone writes
  int locks = -1;    ///< of the rows' locks; -1 if the holder alone writes
};

/// Answers each process of this user that asks for the table, on its own thread, until it is destroyed. A
/// forked child has neither the thread nor the socket: so the name is free once this process has ended.
class Handover {
 public:
  /// @throws NameError if a process holds a table of this name; SharingError if the system gives no socket;
  /// ThreadError
  Handover(std::string name, const SharedOffer& offer, const HandedDescriptors& descriptors);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  /// True in a forked child, which must leak this object: its thread and socket are not there.
  [[nodiscard]] bool is_of_parent() const;

 private:
  void serve();
  /// A socket that listens, and what an asking process gets there.
  struct Door {
    int socket;  ///< listed in handover.cpp, so that forked children close it
    std::vector<int> descriptors;
  };
  void open_doors(const HandedDescriptors& descriptors);
  void close_doors();
  void answer(const Door& door) const;
  void send_to(int peer, const std::vector<int>& descriptors) const;

  std::string name_;
  SharedOffer offer_;
  pid_t owner_;
  Descriptor stop_;
  std::vector<Door> doors_;
  std::thread thread_;
};

/// The answer to an asking process.
struct Received {
  SharedOffer offer;
  pid_t holder = 0;
  Descriptor rows, locks;
};

/// Asks for a table, and waits until a process holds it and has answered. A writer gets the descriptors of a
/// reader if the holder alone writes, as the offer says.
/// @param timeout for the holder to appear, and, 1 s at least, to answer; 0 asks once
/// @throws NameError if no process of this user holds the table in time; SharingError if the holder ends,
/// does not answer, has another version or cannot send its descriptors; AccessError if the holder is another
/// user's
Received receive_table(const std::string& name, Asker asker, std::chrono::milliseconds timeout);

}  // namespace speedtorch
