#include "benchmarks/transfer/peer_cell.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "benchmarks/peers/peers.h"
#include "benchmarks/suite/plain_words.h"
#include "speedtorch/memory/shared_memory.h"

namespace stbench {
namespace {

using Json = nlohmann::ordered_json;

/// The names that NumPy and Python's torch have in common, and bfloat16.
const char* name_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    default:
      return "int64";
  }
}

Json described(int fd, const at::Tensor& tensor) {
  return {{"fd", fd},
          {"shape", std::vector(tensor.sizes().begin(), tensor.sizes().end())},
          {"dtype", name_of(tensor.scalar_type())}};
}

/// The clock that the peer reads, too.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_of(const std::string& text) {
  double seconds = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || rest != text.data() + text.size() || !std::isfinite(seconds))
    throw PeerError(fmt::format("the peer's seconds are '{}'", plain_words(text)));
  return seconds;
}

std::int64_t next_number() {
  static std::int64_t last = 0;
  return ++last;
}

}  // namespace

PeerCell::PeerCell(std::string peer, std::shared_ptr<Arena> arena, reports::Identity id)
    : peer_(std::move(peer)),
      arena_(std::move(arena)),
      id_(std::move(id)),
      on_device_(id_.device != "cpu"),
      number_(next_number()) {}

PeerCell::~PeerCell() {
  if (!process_ || !process_->alive()) return;
  try {
    process_->ask(fmt::format("release {}", number_), "released");
  } catch (const PeerError&) {
    // It ended on the way, and its mappings with it; a case of the next group starts it anew.
  }
}

double PeerCell::run(int first, int repeat) {
  if (!process_ || !process_->alive()) hand_over();
  const bool writes = id_.direction != "to", reads = id_.direction != "from";
  for (int k = 0; on_device_ && writes && k < std::min(repeat, harness::index_sets); ++k) {
    const int set = (first + k) % harness::index_sets;
    values_[static_cast<std::size_t>(set)].copy_(arena_->values(set));
  }
  const double seconds = ask(first, repeat);
  if (on_device_ && reads) arena_->model().copy_(result_);
  return seconds;
}

double PeerCell::ask(int first, int repeat) {
  const double begin = now();
  const auto seconds =
      seconds_of(process_->ask(fmt::format("sample {} {} {}", number_, first, repeat), "seconds"));
  if (const double all = now() - begin; seconds <= 0 || seconds > all) {
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
  const auto& cpus = Peers::of_this_run().cpus();
  const auto count = std::min(cpus.size(), static_cast<std::size_t>(id_.cores));
  const std::vector<int> mine(cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(count));
  Json values = Json::array(), index = Json::array();
  for (int set = 0; set < harness::index_sets; ++set) {
    auto& buffer = values_[static_cast<std::size_t>(set)];
    if (id_.direction != "to")  // else the arena has none
      values.push_back(on_device_ ? exchanged(arena_->values(set), buffer) : shared(arena_->values(set)));
    index.push_back(shared(arena_->host_index(set)));
  }
  return {{"pid", ::getpid()},
          {"direction", id_.direction},
          {"threads", id_.cores},
          {"cpus", mine},
          {"device", id_.device},
          {"huge_pages", id_.placement == "hugepage"},
          {"table", shared(arena_->host_table())},
          {"model", on_device_ ? exchanged(arena_->model(), result_) : shared(arena_->model())},
          {"values", values},
          {"index", index}};
}

Json PeerCell::shared(const at::Tensor& tensor) const {
  const int fd = arena_->shared_fd(tensor);
  if (fd < 0) throw PeerError("a tensor of this cell is not in memory that processes share");
  return described(fd, tensor);
}

/// A buffer on the host for what is on a device.
Json PeerCell::exchanged(const at::Tensor& like, at::Tensor& buffer) {
  if (!buffer.defined()) {
    buffers_.push_back(speedtorch::allocate_shared(speedtorch::Placement::pageable,
                                                   static_cast<std::int64_t>(like.nbytes())));
    buffer = buffers_.back()->host_tensor(like.sizes(), like.scalar_type());
  }
  const auto block = std::find_if(buffers_.begin(), buffers_.end(),
                                  [&](const auto& memory) { return memory->data() == buffer.data_ptr(); });
  return described((*block)->shared_fd(), buffer);
}

Method peer_method(const std::string& name, const std::string& summary) {
  Method method;
  method.name = name, method.summary = summary, method.role = harness::Role::peer, method.asked_only = true;
  method.where = "pageable and hugepage tables with --device cpu";
  method.applies = [](const reports::Identity& id) {
    return id.device == "cpu" && (id.placement == "pageable" || id.placement == "hugepage");
  };
  method.refuses = [name](const reports::Identity& id) {
    const auto reason = id.placement == "hugepage" ? speedtorch::huge_shared_pages_refusal() : "";
    return reason.empty() ? Peers::of_this_run().refusal(name) : reason;
  };
  method.open = [name](const std::shared_ptr<Arena>& arena, const reports::Identity& id) {
    const auto cell = std::make_shared<PeerCell>(name, arena, id);
    return [cell](int first, int repeat) { return cell->run(first, repeat); };
  };
  return method;
}

}  // namespace stbench
