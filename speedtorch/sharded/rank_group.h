/// The processes among which a table is sharded: LibTorch's c10d, behind an interface without its headers.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace c10d {
class ProcessGroup;
}

namespace speedtorch {

/// How the ranks find each other, and how long they wait for each other.
struct GroupOptions {
  /// The network interface ("eth0"), or this rank's address or host name, that carries the rows. Empty: the
  /// variable GLOO_SOCKET_IFNAME; else 127.0.0.1 if `address` is that, or else the address of this host's
  /// name.
  std::string interface = {};
  std::string address = {};  ///< of the host of rank 0; empty: the variable MASTER_ADDR
  int port = 0;              ///< where rank 0 listens; 0: the variable MASTER_PORT, else 29500
  /// The longest wait for another rank: while the group is made, and in each operation.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// This process's place among others, which all call the same operations in the same order. A handle: copies
/// refer to the same group. Not thread-safe. Bytes travel through Gloo, between the hosts' memories.
///
/// All functions throw GroupError if a rank is lost or does not answer within the time-out. The group cannot
/// be used again after that.
class RankGroup {
 public:
  /// A group that the caller made. Its interface, addresses and time-out are the caller's. If SIGPIPE has its
  /// default action, the process ignores it from now on: the group's threads raise it when they write to a
  /// lost rank.
  /// @throws GroupError if it has no backend for the CPU
  explicit RankGroup(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

  /// Makes a group of `size` processes and waits for all of them.
  /// @throws GroupError naming the interface, the address and the port; OptionError for a rank outside of the
  /// size, or for a port outside of 0 to 65535
  RankGroup(int rank, int size, const GroupOptions& options = {});

  /// Reads rank and size from the launcher's variables: RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK
  /// and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH), or SLURM_PROCID and SLURM_NTASKS (srun). SLURM's
  /// are last, as the ranks that mpirun starts in a batch script inherit those of the script. Without
  /// MASTER_ADDR the address is 127.0.0.1 if the launcher says that all ranks are on one host.
  /// @throws GroupError if there are no such variables or if one is no number, or as above
  static RankGroup from_environment(const GroupOptions& options = {});

  struct Place {
    int rank, size;
  };
  /// The same variables without a group, if there are any. @throws GroupError if one is no number
  static std::optional<Place> place_from_environment();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// For messages: "rank 1 of 4 (gloo on 127.0.0.1, rank 0 at 127.0.0.1:29500, time-out 5000 ms)".
  [[nodiscard]] const std::string& name() const;

  /// Sets the longest wait for another rank from the next operation on.
  void set_timeout(std::chrono::milliseconds timeout);

  /// An exchange on its way.
  class Transfer {
   public:
    Transfer() = default;  ///< of none yet
    /// Waits until all bytes are there. @throws GroupError
    void wait();

   private:
    friend class RankGroup;
    struct Work;
    explicit Transfer(Work work);
    std::shared_ptr<Work> work_;
  };

  /// Starts to send to[r] bytes to each rank r and to receive from[r] bytes from it. In `send` and in
  /// `receive`, uint8 tensors on the CPU, the ranks' bytes lie one after the other.
  Transfer start(at::Tensor send, std::vector<std::int64_t> to, at::Tensor receive,
                 std::vector<std::int64_t> from) const;

  /// Starts to send `bytes`, a contiguous uint8 tensor on the CPU, to another rank, which receives it into as
  /// many bytes or more. The messages from one rank to another arrive in the order in which both start them.
  /// In a group of the caller they have the tag 0x57AB1E.
  Transfer send(at::Tensor bytes, int to) const;
  Transfer receive(at::Tensor bytes, int from) const;

  /// Copies each rank's `mine` into `all`, in the order of the ranks. Both are contiguous and on the CPU, of
  /// one dtype and the same sizes on each rank; `all` has size() times as many elements.
  void all_gather(const at::Tensor& mine, at::Tensor& all) const;

  /// Sums each element of `parts` over the ranks, and puts the rank()-th of size() equal parts of the sums
  /// into `mine`. Tensors as those of all_gather().
  void reduce_scatter(at::Tensor& parts, at::Tensor& mine) const;

  /// Sends the r-th `per_rank` numbers to rank r. Returns what each rank sent here, those of rank 0 first.
  /// @throws OptionError unless there are per_rank * size() numbers
  [[nodiscard]] std::vector<std::int64_t> exchange(std::span<const std::int64_t> numbers, int per_rank) const;

  /// Returns the text of each rank, in their order.
  [[nodiscard]] std::vector<std::string> gather_texts(const std::string& mine) const;

  /// Returns once each rank has called it.
  void barrier() const;

  /// Ends the group for this rank: each later operation throws GroupError with `why`. For an error after
  /// which this rank's messages would no longer fit to those of the others.
  void abandon(const std::string& why) const;

  /// Names of facts and their values, which must be the same on each rank.
  using Facts = std::vector<std::pair<std::string, std::string>>;
  /// @throws DisagreementError on each rank naming the first fact that differs, two ranks, and the values of
  /// both. The library's version is compared before the facts.
  void require_agreement(const Facts& facts) const;

 private:
  struct Impl;
  explicit RankGroup(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;
};

}  // namespace speedtorch
