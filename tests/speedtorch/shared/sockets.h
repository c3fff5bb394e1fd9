/// What processes that share tables could leave behind.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace speedtorch::test {

/// True if a socket's address ends with the table's name, in the kernel's list.
inline bool is_listed(const std::string& name) {
  std::ifstream sockets("/proc/net/unix");
  const std::string all{std::istreambuf_iterator<char>(sockets), {}};
  return all.find("/" + name + "\n") != std::string::npos;
}

/// True if a file in the folders of shared memory and of temporary files has this in its name.
inline bool has_file(const std::string& part) {
  const auto has = [&](const auto& entry) {
    return entry.path().filename().string().find(part) != std::string::npos;
  };
  for (const char* folder : {"/dev/shm", "/tmp", "/var/tmp"})
    if (std::ranges::any_of(std::filesystem::directory_iterator(folder), has)) return true;
  return false;
}

}  // namespace speedtorch::test
