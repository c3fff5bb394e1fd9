#include "speedtorch/memory/table_options.h"

#include <utility>

namespace speedtorch {
namespace {

thread_local const TableOptions* innermost = nullptr;

}  // namespace

const TableOptions& default_table_options() {
  static const TableOptions huge_pages;
  return innermost != nullptr ? *innermost : huge_pages;
}

DefaultTableOptionsGuard::DefaultTableOptionsGuard(TableOptions options)
    : options_(std::move(options)), outer_(std::exchange(innermost, &options_)) {}

DefaultTableOptionsGuard::~DefaultTableOptionsGuard() { innermost = outer_; }

}  // namespace speedtorch
