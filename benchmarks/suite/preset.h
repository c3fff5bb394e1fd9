/// A preset as the program knows it: its name and a sentence for the help.
#pragma once

#include <string>
#include <utility>

namespace stbench {

struct PresetInfo {
  PresetInfo(const char* name_) : name(name_) {}  // NOLINT(google-explicit-constructor): suites list names
  PresetInfo(std::string name_, std::string help_) : name(std::move(name_)), help(std::move(help_)) {}

  std::string name;
  std::string help;  ///< empty if another suite says it
};

}  // namespace stbench
