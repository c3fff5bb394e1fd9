/// Comma lists of names, and suggestions for unknown names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stbench::harness {

/// The items of a comma list, as they stand.
/// @param option names the list in messages, e.g. "--rows"
/// @throws UsageError for an empty list or item.
std::vector<std::string_view> split_list(std::string_view text, std::string_view option);

/// "; did you mean 'hugepage'?" where one known name is near (by insertions, deletions, replacements and
/// swaps of neighbours, whatever the case) or is the only one that starts so; else empty.
std::string did_you_mean(std::string_view given, std::span<const std::string> known);

/// The message for one name that is not known: the suggestion if there is one, and all known names.
std::string unknown_name(std::string_view given, std::string_view option, std::span<const std::string> known);

/// A comma list of known names, each once, in the order given.
/// @throws UsageError for an empty list or item and for a name that is not known.
std::vector<std::string> parse_names(std::string_view text, std::string_view option,
                                     std::span<const std::string> known);

}  // namespace stbench::harness
