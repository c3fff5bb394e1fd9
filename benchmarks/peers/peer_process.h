/// A peer: a program of its own that is asked line by line to move the rows of memory that it shares with us.
///
/// It reads requests on its standard input and answers each with one line on its standard output; the words
/// are in docs/peers.md. Whatever it does (ends, hangs, talks nonsense) becomes an error here, never a hang
/// or a crash, and it ends with us.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "speedtorch/system/descriptor.h"

namespace stbench {

/// The peer ended, hung, answered what it should not, or refused; one line that can go into a report.
struct PeerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The peer cannot be had here: its interpreter or a module is missing. The line has the cure.
struct PeerMissing : PeerError {
  using PeerError::PeerError;
};

/// The version of the lines below; a peer that names another one is refused.
inline constexpr int peer_protocol = 1;

/// How a peer is waited for, and how errors name it.
struct PeerTerms {
  double limit_s = 0;  ///< for each answer; 0 = none
  std::string limit_words = "a quarter of --timeout";
  std::string who = "the peer";
  /// Asked while an answer is waited for, at least each second: true ends the peer.
  std::function<bool()> stop = [] { return false; };
};

class PeerProcess {
 public:
  /// Starts the command (found on the PATH, without a shell) and waits for its `hello`.
  /// @throws PeerMissing if the command cannot be started or says `missing`; PeerError
  PeerProcess(const std::vector<std::string>& command, PeerTerms terms);
  /// Tells it to end, and ends it if it does not.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// False once it ended or was ended: every further request is refused.
  [[nodiscard]] bool alive() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Texts by name: of the interpreter and the modules, as `hello` gave them.
  [[nodiscard]] const nlohmann::ordered_json& versions() const { return versions_; }

  /// Sends one line. Returns what follows the word `expected` in the answer.
  /// @throws PeerError with the peer's own words where it answers `error`, and then it can be asked again;
  /// after any other PeerError it is ended.
  std::string ask(const std::string& request, std::string_view expected);
  /// Asks for a sample. Returns its seconds. @throws PeerError also unless they are more than zero
  double ask_seconds(const std::string& request);

 private:
  void start(const std::vector<std::string>& command);
  void read_hello();
  void refuse_surplus();
  void send(const std::string& line);
  std::string read_line();
  [[noreturn]] void give_up(const std::string& reason);
  std::string end(bool kill);
  [[nodiscard]] int milliseconds_left(double waited_s);

  PeerTerms terms_;
  pid_t pid_ = -1;
  speedtorch::Descriptor socket_, messages_;
  std::string unread_;
  nlohmann::ordered_json versions_ = nlohmann::ordered_json::object();
};

}  // namespace stbench
