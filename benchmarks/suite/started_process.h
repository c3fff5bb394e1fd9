/// Processes that this one starts: how, and what they said last.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace stbench {

/// The file of this program, to execute again.
inline constexpr auto this_program = "/proc/self/exe";

/// Starts a program in its own process group, so that the terminal interrupts only this process.
/// @param program the file to execute
/// @param words its name and arguments
/// @param streams its descriptors 0, 1, ...
/// @returns the process, or the system's error below 0
pid_t start_program(const std::string& program, std::vector<std::string> words,
                    std::initializer_list<int> streams, char* const* environment = environ);

/// The last line of what a process wrote to `messages`, as plain_words(). Empty if there is none.
std::string last_line_of(int messages);

}  // namespace stbench
