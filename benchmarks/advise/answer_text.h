/// The answer of `stbench advise` in words, and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/advise/answer.h"
#include "benchmarks/advise/choices.h"
#include "benchmarks/advise/question.h"
#include "reports/style.h"

namespace stbench::advise {

/// About ten lines: where to keep the table, what that takes, how long a look-up lasts, what the neighbours
/// would cost, and how sure that is.
std::string text_of(const Answer& answer, const Question& question, const Room& room, reports::Style style);

/// The plan: a line for each choice, and the runs that would measure them, as commands.
std::string plan_text(const std::vector<Choice>& choices, const std::vector<RunWords>& runs);

/// A line for each choice and state of the caches: the rows behind the answer.
std::string explanation_of(const Answer& answer, const Question& question);

/// docs/where.md has the fields.
nlohmann::ordered_json json_of(const Answer& answer, const Question& question, const Room& room);

}  // namespace stbench::advise
