#include "benchmarks/suite/started_process.h"

#include <spawn.h>

#include <algorithm>
#include <string_view>

#include "benchmarks/suite/plain_words.h"

namespace stbench {

pid_t start_program(const std::string& program, std::vector<std::string> words,
                    std::initializer_list<int> streams, char* const* environment) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  for (int number = 0; const int stream : streams)
    ::posix_spawn_file_actions_adddup2(&actions, stream, number++);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments.data(), environment);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -error;
}

std::string last_line_of(int messages) {
  char some[4096];
  const auto size = ::lseek(messages, 0, SEEK_END);
  const auto begin = std::max<off_t>(0, size - static_cast<off_t>(sizeof some));
  const auto count = ::pread(messages, some, sizeof some, begin);
  std::string_view text(some, count < 0 ? 0 : static_cast<std::size_t>(count));
  while (text.ends_with('\n')) text.remove_suffix(1);
  return plain_words(text.substr(text.rfind('\n') + 1));
}

}  // namespace stbench
