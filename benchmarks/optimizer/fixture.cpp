#include "benchmarks/optimizer/fixture.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "benchmarks/steps/reference_step.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/tables/table_store.h"
#include "benchmarks/transfer/case_identity.h"
#include "harness/distribution.h"
#include "harness/machine.h"
#include "speedtorch/error.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/tables/fills.h"
#include "speedtorch/tables/table.h"

namespace stbench {
namespace {

using harness::Check;

using speedtorch::Table;
using speedtorch::Uniform;

speedtorch::TableOptions placed(const reports::Identity& id, const std::string& file) {
  return {.placement = placement_of(id.placement), .device = at::Device(id.device), .file = file};
}

Table table_of(const reports::Identity& id, const Uniform& with, const std::string& file = {}) {
  return Table::filled({id.rows, id.dim}, at::kFloat, with, placed(id, file));
}

/// The parameter table: of random numbers, or a copy of the rows of --table.
Table param_table_of(const reports::Identity& id, const StepTerms& terms, const std::string& file) {
  if (!terms.table) return table_of(id, {-0.1, 0.1, terms.seed}, file);
  auto table = Table::empty({id.rows, id.dim}, at::kFloat, placed(id, file));
  fill_memory(*table.memory(), 0, table.bytes(), {terms.seed, terms.table.get()});
  return table;
}

std::shared_ptr<const IndexSets> draw_sets(const reports::Identity& id, std::uint64_t seed) {
  const harness::IndexSource source(harness::parse_distribution(id.distribution));
  auto sets = std::make_shared<IndexSets>();
  for (int set = 0; set < harness::index_sets; ++set)
    (*sets)[static_cast<std::size_t>(set)] = source.draw(id.rows, id.batch, seed, set);
  return sets;
}

at::Tensor as_tensor(const std::vector<std::int64_t>& index, const reports::Identity& id) {
  auto tensor = at::empty({static_cast<std::int64_t>(index.size())}, at::kLong);
  std::ranges::copy(index, tensor.data_ptr<std::int64_t>());
  return tensor.to(at::Device(id.device), dtype_named(id.index_dtype).value());
}

/// In the folder of tables in files. It goes with this process.
std::unique_ptr<speedtorch::UnfinishedFolder> folder_of_tables() {
  const auto place = table_folder() + "/stbench-tables";
  speedtorch::remove_leftovers(place);
  auto folder = std::make_unique<speedtorch::UnfinishedFolder>(place, 0700);
  if (folder->error() != 0)
    throw speedtorch::FileError(std::string("cannot make a folder for tables: ") +
                                std::strerror(folder->error()));
  return folder;
}

reports::Value pages_of(const speedtorch::Memory& memory) {
  if (!memory.on_host()) return {};
  return speedtorch::pages_got(memory.data(), memory.bytes());
}

}  // namespace

const std::string& optimizer_of(const reports::Identity& id) { return axis<std::string>(id, "optimizer"); }

std::int64_t cache_bytes_of(const reports::Identity& id) { return axis<std::int64_t>(id, "cache_bytes"); }

std::string OptimizerFixture::file_of(std::size_t table) const {
  return folder == nullptr ? std::string() : fmt::format("{}/table{}.npy", folder->path(), table);
}

OptimizerFixture::OptimizerFixture(const reports::Identity& id, const StepTerms& terms)
    : seed(terms.seed),
      folder(cache_bytes_of(id) > 0 ? folder_of_tables() : nullptr),
      options(optimizer_named(optimizer_of(id))),
      state_names(speedtorch::state_names(options)),
      param_table(param_table_of(id, terms, file_of(0))),
      param(param_table.tensor()),
      sets(draw_sets(id, terms.seed)),
      pages(pages_of(*param_table.memory())) {
  for (std::uint64_t k = 0; k < state_names.size(); ++k) {
    state_tables.push_back(table_of(id, {0.5, 1, terms.seed + k + 1}, file_of(k + 1)));
    states.push_back(state_tables.back().tensor());
  }
  host_grad = at::empty({id.batch, id.dim}, at::kFloat);
  speedtorch::fill(host_grad, Uniform{0.5, 1.5, terms.seed + 100});
  if (id.dim > 1) host_grad.slice(1, 1, id.dim, 2).neg_();
  grad = host_grad.to(at::Device(id.device));
  for (std::size_t set = 0; set < index.size(); ++set) index[set] = as_tensor((*sets)[set], id);
  if (axis<std::string>(id, "cache") == "cold") add_colds(id);
}

void OptimizerFixture::add_colds(const reports::Identity& id) {
  const auto walk = std::make_shared<CacheWalk>(harness::read_machine().last_level_cache_bytes);
  const auto add = [&](const Table& table) {
    colds.push_back(std::make_unique<Cold>(table.memory(), at::Device(id.device), walk));
  };
  add(param_table);
  if (param_table.placement() != speedtorch::Placement::mapped) return;
  for (const auto& table : state_tables) add(table);
}

void OptimizerFixture::before_step() {
  for (const auto& cold : colds) cold->evict();
}

RowStepper::RowStepper(const reports::Identity& id, OptimizerFixture& fixture,
                       const speedtorch::UpdateOptions& reference)
    : fixture_(fixture), check_(reference, id.rows, id.dim), payload_(fixture.step_bytes()) {}

std::int64_t OptimizerFixture::step_bytes() const {
  return 2 * moved_bytes(0) + static_cast<std::int64_t>(grad.nbytes());
}

std::int64_t OptimizerFixture::moved_bytes(int set) const {
  const auto& named = (*sets)[static_cast<std::size_t>(set)];
  const std::set<std::int64_t> distinct(named.begin(), named.end());
  return std::ssize(distinct) * param.size(1) * static_cast<std::int64_t>(param.element_size()) *
         (1 + std::ssize(states));
}

ReadRows RowStepper::reader() {
  std::vector<at::Tensor> tables{fixture_.param};
  tables.insert(tables.end(), fixture_.states.begin(), fixture_.states.end());
  return reader_of(std::move(tables));
}

Check RowStepper::check(int /*set*/) { return check_.check(reader(), steps_, moves_all()); }

std::string RowStepper::fingerprint(int set) {
  const auto row = reader()({named(set).front()});
  return {reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float)};
}

StateFixture::StateFixture(const reports::Identity& id, const StepTerms& terms) {
  const auto sets = draw_sets(id, terms.seed);
  const auto names = speedtorch::state_names(optimizer_named(optimizer_of(id)));
  const auto one = transfer_case(id);
  for (std::uint64_t k = 0; k < names.size(); ++k) {
    const auto memory = speedtorch::allocate(one.placement, one.shape().bytes(), one.device);
    fill_memory(*memory, 0, memory->bytes(), terms.seed + k);
    tables.push_back(std::make_unique<TransferFixture>(one, memory, sets, terms.seed + k));
  }
  pages = pages_of(*tables.front()->operands.memory());
}

Check StateFixture::last_check() {
  Check all;
  for (const auto& table : tables) merge(all, table->verifier.close(/*trusted=*/true, /*whole=*/true));
  if (all.mismatches > 0) all.first = "a case of this cell damaged a state table: " + all.first;
  return all;
}

}  // namespace stbench
