/// Preloaded into a program, it starts that program many times for one loading of its libraries: LibTorch's
/// take 0.4 s of processor time, and a run of the tests starts the program some thousand times. The libraries
/// are loaded and their constructors run; then, in place of main(), it takes requests, and each forked child
/// calls main() with a request's words. tests/warm_start.py is the other end.
///
/// The socket is descriptor WARM_START. A request is one packet: folder, number of words, words and
/// variables, each ended by a zero byte, with the descriptors of the three standard streams. The answers are
/// the child's number and its wait status.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
Main program = nullptr;

struct Request {
  std::vector<char> text;
  std::array<int, 3> streams{-1, -1, -1};
};

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::_Exit(125);
}

/// @returns false where the other end was closed
bool receive(int socket, Request& request) {
  request.text.resize(1 << 20);
  std::array<char, CMSG_SPACE(sizeof(request.streams))> control{};
  iovec part{request.text.data(), request.text.size()};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control.data(), message.msg_controllen = control.size();
  const auto bytes = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (bytes <= 0) return false;
  const auto* descriptors = CMSG_FIRSTHDR(&message);
  if (descriptors == nullptr || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    give_up("warm start: a request");
  std::memcpy(request.streams.data(), CMSG_DATA(descriptors), sizeof(request.streams));
  request.text.resize(static_cast<std::size_t>(bytes));
  return true;
}

/// What a new process has: the request's folder, words, variables and streams, and nothing of the server's.
[[noreturn]] void become(Request& request, int socket) {
  ::close(socket);
  for (int stream = 0; stream < 3; ++stream) {
    if (::dup2(request.streams[stream], stream) < 0) give_up("warm start: dup2");
    ::close(request.streams[stream]);
  }
  std::vector<char*> pieces;
  for (char* at = request.text.data(); at < request.text.data() + request.text.size();
       at += std::strlen(at) + 1)
    pieces.push_back(at);
  if (::chdir(pieces.at(0)) != 0) give_up("warm start: chdir");
  const int count = std::atoi(pieces.at(1));
  std::vector<char*> words(pieces.begin() + 2, pieces.begin() + 2 + count);
  words.push_back(nullptr);
  ::clearenv();
  for (auto variable = pieces.begin() + 2 + count; variable != pieces.end(); ++variable) ::putenv(*variable);
  const int status = program(count, words.data(), environ);
  std::fflush(nullptr);
  std::_Exit(status);  // what LibTorch does at the exit takes 0.1 s; tests of other starts see it
}

int serve(int, char**, char**) {
  const int socket = std::atoi(std::getenv("WARM_START"));
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (Request request; receive(socket, request);) {
    const pid_t child = ::fork();
    if (child == 0) become(request, socket);
    if (child < 0) give_up("warm start: fork");
    for (const int stream : request.streams) ::close(stream);
    int status = 0;
    if (::send(socket, &child, sizeof(child), 0) < 0 || ::waitpid(child, &status, 0) < 0 ||
        ::send(socket, &status, sizeof(status), 0) < 0)
      give_up("warm start");
  }
  std::_Exit(0);
}

}  // namespace

extern "C" int __libc_start_main(Main main, int count, char** words, void (*init)(), void (*fini)(),
                                 void (*end)(), void* stack) {
  const auto next = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  program = main;
  return next(std::getenv("WARM_START") != nullptr ? serve : main, count, words, init, fini, end, stack);
}
