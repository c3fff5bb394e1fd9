/// What the system will not give, found before anything is taken. Most systems promise memory that they do
/// not have and kill the process that uses it; a full disk under a mapping is a SIGBUS. So what is asked for
/// is compared with every limit that is known, first. Needs no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/system/system_files.h"

namespace speedtorch {

/// What kind of pages is asked for: it decides which limits count.
enum class MemoryUse {
  anonymous,  ///< private pages, which may be swapped out
  locked,     ///< private pages that stay in memory
  shared,     ///< pages of a memfd or of a tmpfs
  file,       ///< a mapping of a file on a disk: addresses only
  resident,   ///< pages of a mapping that is there already, which are to stay in memory
};

struct Limit {
  std::string name;       ///< as a message says it, with the shell's word for it
  std::int64_t free = 0;  ///< bytes that may still be taken
};

/// The limits that this process is under for such memory, the tightest first; without those that are
/// unlimited or that the system does not tell.
///
/// Not among them is RLIMIT_MEMLOCK: CUDA's driver locks pages beside it, so that most users' limit of a few
/// MiB does not bound their pinned memory (locked_memory_limit() has it for where a registration fails).
/// @param files the kernel's /proc and /sys; tests replace them
std::vector<Limit> memory_limits(MemoryUse use, const SystemFiles& files = SystemFiles());

/// @param what as in "hugepage memory", for the message
/// @throws LimitError naming the tightest limit, where fewer than `bytes` are free under it
void require_memory(const std::string& what, std::int64_t bytes, MemoryUse use,
                    const SystemFiles& files = SystemFiles());

/// What mlock() may still lock; nothing where that is unlimited, as for a process with CAP_IPC_LOCK.
std::vector<Limit> locked_memory_limit(const SystemFiles& files = SystemFiles());

/// The limits on a new file in `folder`, the tightest first: the space on its disk and RLIMIT_FSIZE (which
/// the system answers with a signal that ends the process); on a tmpfs also those of shared memory.
std::vector<Limit> disk_limits(const std::string& folder, const SystemFiles& files = SystemFiles());

/// @throws LimitError as require_memory()
void require_disk(const std::string& what, const std::string& folder, std::int64_t bytes,
                  const SystemFiles& files = SystemFiles());

/// The limit on the size of each file, as for a memfd. @throws LimitError as require_memory()
void require_file_size(const std::string& what, std::int64_t bytes);

}  // namespace speedtorch
