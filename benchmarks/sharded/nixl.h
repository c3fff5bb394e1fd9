/// NIXL: reads of another process's memory in which that process takes no part. Its library is loaded when a
/// method asks for it, so a build needs no NIXL.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace stbench {

/// An agent of this process, with UCX below it. Memory that was given to it must outlive it.
class Nixl {
 public:
  /// Why this process has no NIXL; empty if it has.
  static std::string refusal();

  /// @param name that no other agent of the group has
  /// @throws std::runtime_error with refusal(), or with the call that failed, as all functions do
  explicit Nixl(const std::string& name);
  ~Nixl();
  Nixl(const Nixl&) = delete;
  Nixl& operator=(const Nixl&) = delete;

  /// Lets this agent's reads write to the memory, and those of others read from it.
  void add(void* memory, std::size_t bytes);
  /// Describes this agent and the memory added so far, as bytes, to an agent that is to read from it.
  [[nodiscard]] std::string description() const;
  /// Takes the description of an agent.
  void meet(const std::string& description);

  /// One piece of memory of another process and its place here, as addresses.
  struct Piece {
    std::uintptr_t there, here;
  };

  /// A read under way.
  class Read {
   public:
    ~Read();
    Read(Read&&) noexcept;
    Read& operator=(Read&&) = delete;

    /// Returns when all pieces are here. @throws std::runtime_error also after the time
    void wait(std::chrono::milliseconds timeout);

   private:
    friend Nixl;
    Read(Nixl& nixl, void* request) : nixl_(&nixl), request_(request) {}

    Nixl* nixl_;
    void* request_;
    bool done_ = false;
  };

  /// Begins to read pieces of this many bytes each from an agent that was met.
  [[nodiscard]] Read read(const std::string& agent, std::span<const Piece> pieces, std::size_t bytes);

 private:
  void* agent_ = nullptr;
  void* backend_ = nullptr;
};

}  // namespace stbench
