/// What processes that share tables could leave behind.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace speedtorch::test {

/// True if a socket's address ends with the table's name, in the kernel's list.
inline bool is_listed(const std::string& name) {
  std::ifstream sockets("/proc/net/unix");
  const std::string all{std::istreambuf_iterator<char>(sockets), {}};
  return all.find("/" + name + "\n") != std::string::npos;
}

/// A file's device, as /proc/PID/maps writes it ("00:01"), and its number.
using Inode = std::pair<std::string, ino_t>;

/// The files without a name (of memory, or unlinked) that a process maps shared.
inline std::set<Inode> unnamed_memory_of(const std::string& process) {
  std::set<Inode> found;
  std::ifstream maps("/proc/" + process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string addresses, permissions, offset, device;
    ino_t inode = 0;
    words >> addresses >> permissions >> offset >> device >> inode;
    if (permissions.ends_with('s') && inode != 0 && line.ends_with("(deleted)")) found.emplace(device, inode);
  }
  return found;
}

inline std::set<Inode> unnamed_memory_of(pid_t process) { return unnamed_memory_of(std::to_string(process)); }

/// True if a process has the file open. One that ends meanwhile has not.
inline bool has_open(const std::filesystem::path& process, const Inode& file) {
  std::error_code ended;
  for (std::filesystem::directory_iterator entry(process / "fd", ended), end; !ended && entry != end;
       entry.increment(ended)) {
    struct stat is {};
    if (::stat(entry->path().c_str(), &is) != 0 || is.st_ino != file.second) continue;
    std::ostringstream device;
    device << std::hex;
    for (const auto part : {::major(is.st_dev), ::minor(is.st_dev)})
      device << (device.tellp() > 0 ? ":" : "") << (part < 16 ? "0" : "") << part;
    if (device.str() == file.first) return true;
  }
  return false;
}

/// True if any process maps the file or has it open.
inline bool is_in_use(const Inode& file) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (unnamed_memory_of(name).contains(file) || has_open(entry.path(), file)) return true;
  }
  return false;
}

}  // namespace speedtorch::test
