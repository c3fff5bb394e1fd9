#include "benchmarks/transfer/peer_cell.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "benchmarks/peers/peers.h"
#include "benchmarks/transfer/case_identity.h"
#include "speedtorch/memory/shared_memory.h"

namespace stbench {
namespace {

using Json = nlohmann::ordered_json;
using speedtorch::Placement;

/// The clock that the peer reads, too.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t next_number() {
  static std::int64_t last = 0;
  return ++last;
}

}  // namespace

PeerCell::PeerCell(std::string peer, std::shared_ptr<Operands> operands, TransferCase one)
    : peer_(std::move(peer)), operands_(std::move(operands)), case_(std::move(one)), number_(next_number()) {}

PeerCell::~PeerCell() {
  if (!process_ || !process_->alive()) return;
  try {
    process_->ask(fmt::format("release {}", number_), "released");
  } catch (const PeerError&) {
    // It ended, and its mappings with it. A case of the next group starts it again.
  }
}

double PeerCell::run(int first, int repeat) {
  if (!process_ || !process_->alive()) hand_over();
  for (int k = 0; case_.on_gpu() && case_.writes() && k < std::min(repeat, harness::index_sets); ++k) {
    const int set = (first + k) % harness::index_sets;
    values_[static_cast<std::size_t>(set)].tensor.copy_(operands_->values(set));
  }
  const double seconds = ask(first, repeat);
  if (exchanges() && case_.reads()) operands_->model().copy_(result_.tensor);
  return seconds;
}

double PeerCell::ask(int first, int repeat) {
  const double begin = now();
  const auto seconds = process_->ask_seconds(fmt::format("sample {} {} {}", number_, first, repeat));
  if (const double all = now() - begin; seconds > all) {
    throw PeerError(fmt::format(
        "the peer says that it took {:g} s; from the request to its answer it was {:g} s", seconds, all));
  }
  return seconds;
}

/// A peer that was ended by another case is there again, but without this cell.
void PeerCell::hand_over() {
  process_ = Peers::of_this_run().running(peer_);
  process_->ask(fmt::format("prepare {} {}", number_, request().dump()), "ready");
}

Json PeerCell::request() {
  Json values = Json::array(), index = Json::array();
  for (int set = 0; set < harness::index_sets; ++set) {
    auto& buffer = values_[static_cast<std::size_t>(set)];
    if (case_.writes())  // else there are none
      values.push_back(case_.on_gpu() ? exchanged(operands_->values(set), buffer)
                                      : shared(operands_->values(set)));
    index.push_back(index_of(set));
  }
  return {
      {"pid", ::getpid()},
      {"direction", identity_of(case_).direction},
      {"threads", case_.cores},
      {"cpus", Peers::of_this_run().cpus(case_.cores)},
      {"device", case_.device.str()},
      {"huge_pages", case_.placement == Placement::hugepage},
      {"cold", case_.is_cold()},
      {"table", case_.placement == Placement::mapped ? described(operands_->table_fd(), operands_->table())
                                                     : shared(operands_->host_table())},
      {"model", exchanges() ? exchanged(operands_->model(), result_) : shared(operands_->model())},
      {"values", values},
      {"index", index}};
}

Json PeerCell::shared(const at::Tensor& tensor) const {
  const int fd = operands_->shared_fd(tensor);
  if (fd < 0) throw PeerError("a tensor of this cell is not in memory that processes share");
  return described(fd, tensor);
}

Json PeerCell::index_of(int set) {
  const auto& index = operands_->host_index(set);
  if (case_.placement != Placement::mapped) return shared(index);
  auto& copy = index_[static_cast<std::size_t>(set)];
  copy = SharedTensor(index);
  return copy.described();
}

/// A buffer in shared memory for what is on a device, or in private memory.
Json PeerCell::exchanged(const at::Tensor& like, SharedTensor& buffer) {
  if (!buffer.memory) buffer = SharedTensor(like.sizes(), like.scalar_type());
  return buffer.described();
}

bool PeerCell::exchanges() const { return case_.on_gpu() || case_.placement == Placement::mapped; }

Method peer_method(const std::string& name, const std::string& summary) {
  return {.name = name,
          .summary = summary,
          .role = harness::Role::peer,
          .asked_only = true,
          .where = "pageable and hugepage tables with --device cpu",
          .supports =
              [](const TransferCase& one) {
                return !one.on_gpu() &&
                       (one.placement == Placement::pageable || one.placement == Placement::hugepage);
              },
          .skip_reason =
              [name](const TransferCase& one) {
                const auto reason =
                    one.placement == Placement::hugepage ? speedtorch::huge_shared_pages_refusal() : "";
                return reason.empty() ? Peers::of_this_run().refusal(name) : reason;
              },
          .open =
              [name](std::shared_ptr<Operands> operands, const TransferCase& one) {
                const auto cell = std::make_shared<PeerCell>(name, std::move(operands), one);
                return [cell](int first, int repeat) { return cell->run(first, repeat); };
              }};
}

}  // namespace stbench
