/// Finds what the system cannot give before the library allocates. Most systems promise more memory than they
/// have and then kill the process that uses it, and a full disk under a mapping is a SIGBUS. So each request
/// is compared with every known limit first. Needs no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/system/system_files.h"

namespace speedtorch {

/// The kind of pages, which decides which limits count.
enum class MemoryUse {
  anonymous,  ///< private pages, which may be swapped out
  locked,     ///< private pages that stay in memory
  shared,     ///< pages of a memfd or of a tmpfs
  file,       ///< a mapping of a file on a disk: addresses only
  resident,   ///< pages of an existing mapping that are to stay in memory
};

struct Limit {
  std::string name;       ///< as messages say it, with the shell's word for it
  std::int64_t free = 0;  ///< bytes that may still be taken
};

/// Returns the limits of this process for such memory, the tightest first. Leaves out limits that are
/// unlimited or that the system does not report.
///
/// RLIMIT_MEMLOCK is not among them. CUDA's driver locks pages without it, so the few MiB of most users do
/// not bound pinned memory. See locked_memory_limit() for when a registration fails.
/// @param files the kernel's /proc and /sys; tests replace them
std::vector<Limit> memory_limits(MemoryUse use, const SystemFiles& files = SystemFiles());

/// @param what as in "hugepage memory", for the message
/// @throws LimitError naming the tightest limit, if fewer than `bytes` are free under it
void require_memory(const std::string& what, std::int64_t bytes, MemoryUse use,
                    const SystemFiles& files = SystemFiles());

/// Returns what mlock() may still lock; nothing if that is unlimited, as with CAP_IPC_LOCK.
std::vector<Limit> locked_memory_limit(const SystemFiles& files = SystemFiles());

/// Returns the limits on a new file in `folder`, the tightest first: free space on its disk, RLIMIT_FSIZE
/// (whose signal would end the process) and, on a tmpfs, the limits of shared memory.
std::vector<Limit> disk_limits(const std::string& folder, const SystemFiles& files = SystemFiles());

/// @throws LimitError as require_memory()
void require_disk(const std::string& what, const std::string& folder, std::int64_t bytes,
                  const SystemFiles& files = SystemFiles());

/// Checks the limit on a file's size, which holds for a memfd too. @throws LimitError as require_memory()
void require_file_size(const std::string& what, std::int64_t bytes);

}  // namespace speedtorch
