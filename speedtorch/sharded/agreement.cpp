#include "speedtorch/sharded/agreement.h"

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

std::string message_of(const std::exception_ptr& refusal) {
  if (!refusal) return {};
  try {
    std::rethrow_exception(refusal);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an error of an unknown type";
  }
}

}  // namespace

std::string of_rank(const RankGroup& group) {
  return " (on rank " + std::to_string(group.rank()) + " of " + std::to_string(group.size()) + ")";
}

std::exception_ptr attempt(const RankGroup& group, const std::function<void()>& work) {
  try {
    work();
  } catch (const IndexError& error) {
    return std::make_exception_ptr(IndexError(error.position(), error.index(), error.rows(), of_rank(group)));
  } catch (const DuplicateError& error) {
    return std::make_exception_ptr(
        DuplicateError(error.row(), error.first(), error.second(), of_rank(group)));
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void announce_refusal(const std::string& why,
                      const std::function<void(const std::exception_ptr& refusal)>& take_part) {
  struct Refusal : Error {
    using Error::Error;
  };
  try {
    take_part(std::make_exception_ptr(Refusal(why)));
  } catch (const Refusal&) {  // this rank's own
  }
}

void begin_table(const RankGroup& group, const std::exception_ptr& refusal) {
  group.require_agreement({});
  throw_refusals(group, refusal);
}

void throw_refusals(const RankGroup& group, const std::exception_ptr& refusal) {
  const auto texts = group.gather_texts(message_of(refusal));
  if (refusal) std::rethrow_exception(refusal);
  for (std::size_t r = 0; r < texts.size(); ++r)
    if (!texts[r].empty()) throw RankError(static_cast<int>(r), texts[r]);
}

}  // namespace speedtorch
