/// `stbench completion bash|zsh|fish`: what a shell needs to complete the command line, made from the table
/// of options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/program/commands.h"
#include "benchmarks/program/option_table.h"
#include "harness/errors.h"
#include "harness/suggest.h"

namespace stbench {
namespace {

/// The commands that take files, as a shell's pattern: "show|compare".
std::string commands_with_files(std::string_view separator) {
  std::string names;
  for (const auto& command : commands()) {
    if (command.takes_reports) names += fmt::format("{}{}", names.empty() ? "" : separator, command.name);
  }
  return names;
}

template <class Line>
std::string each_option(Line line) {
  std::string text;
  for (const auto& spec : option_table()) text += line(spec);
  return text;
}

// ---- bash

std::string bash_values(const OptionSpec& option) {
  if (option.values)
    return fmt::format("    {}) values='{}' ;;\n", option.name, fmt::join(option.values(), " "));
  if (option.takes_file()) return fmt::format("    {}) files=1 ;;\n", option.name);
  return option.value.empty() ? "" : fmt::format("    {}) return ;;\n", option.name);
}

std::string bash_commands() {
  std::string text;
  for (const auto& command : commands()) {
    if (!command.options.empty())
      text += fmt::format("    {}) options='{}' ;;\n", command.name, fmt::join(command.options, " "));
  }
  return text;
}

std::string bash() {
  std::vector<std::string_view> names;
  for (const auto& command : commands()) names.push_back(command.name);
  return fmt::format(R"(# bash completion of stbench, made by: stbench completion bash
_stbench() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} options values= files= done=
  COMPREPLY=()
  # bash makes three words of --option=value
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  options='{}'
  case ${{COMP_WORDS[1]}} in
{}  esac
  case $previous in
{}  esac
  if [[ -n $files || ( ${{COMP_WORDS[1]}} == @({}) && $current != -* && -z $values ) ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ -n $values ]]; then
    # of a comma list the last item is completed
    if [[ $current == *,* ]]; then done=${{current%,*}},; fi
    mapfile -t COMPREPLY < <(compgen -P "$done" -W "$values" -- "${{current##*,}}")
  elif [[ $COMP_CWORD == 1 && $current != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{}' -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  fi
}}
complete -F _stbench stbench ./stbench
)",
                     fmt::join(option_names(), " "), bash_commands(), each_option(bash_values),
                     commands_with_files("|"), fmt::join(names, " "));
}

// ---- zsh

/// A text inside single quotes and brackets of zsh's _arguments.
std::string zsh_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') {
      safe += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') safe += '\\';
      safe += c;
    }
  }
  return safe;
}

std::string zsh_line(const OptionSpec& option) {
  const auto begin =
      fmt::format("    '{}{}[{}]", option.name, option.value.empty() ? "" : "=", zsh_text(option.brief));
  if (option.value.empty()) return begin + "' \\\n";
  const auto value = zsh_text(option.value);
  if (option.takes_file()) return fmt::format("{}:{}:_files' \\\n", begin, value);
  if (!option.values) return fmt::format("{}:{}: ' \\\n", begin, value);
  const auto values = fmt::format("{}", fmt::join(option.values(), " "));
  if (option.takes_list()) return fmt::format("{}:{}:_sequence compadd - {}' \\\n", begin, value, values);
  return fmt::format("{}:{}:({})' \\\n", begin, value, values);
}

std::string zsh() {
  std::string names, own;
  for (const auto& command : commands()) {
    names += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.summary));
    if (command.options.empty()) continue;
    own += fmt::format("    {}) compadd -- {}; {}return ;;\n", command.name, fmt::join(command.options, " "),
                       command.takes_reports ? "_files; " : "");
  }
  return fmt::format(R"(#compdef stbench
# zsh completion of stbench, made by: stbench completion zsh
_stbench() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  case $words[2] in
{}  esac
  _arguments \
{}    '*: : '
}}
_stbench "$@"
)",
                     names, own, each_option(zsh_line));
}

// ---- fish

std::string fish_text(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += (c == '\'' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  return "'" + safe + "'";
}

std::string fish_line(const OptionSpec& option) {
  const bool is_long = option.name.starts_with("--");
  auto line = fmt::format("complete -c stbench {} {} -d {}", is_long ? "-l" : "-s",
                          option.name.substr(is_long ? 2 : 1), fish_text(option.brief));
  if (option.takes_file()) return line + " -r -F\n";
  if (option.values)
    return line + fmt::format(" -x -a {}\n", fish_text(fmt::format("{}", fmt::join(option.values(), " "))));
  return line + (option.value.empty() ? "\n" : " -x\n");
}

std::string fish() {
  std::string text =
      "# fish completion of stbench, made by: stbench completion fish\ncomplete -c stbench -f\n";
  for (const auto& command : commands()) {
    text += fmt::format("complete -c stbench -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_text(command.summary));
    for (const auto& option : command.options)
      text += fmt::format("complete -c stbench -n '__fish_seen_subcommand_from {}' -a '{}'\n", command.name,
                          option);
  }
  text +=
      fmt::format("complete -c stbench -n '__fish_seen_subcommand_from {}' -F\n", commands_with_files(" "));
  return text + each_option(fish_line);
}

}  // namespace

Execute parse_completion(const std::vector<std::string>& words) {
  if (words.size() != 1) throw UsageError("completion takes one shell: stbench completion bash, zsh or fish");
  const auto& shell = words.front();
  if (shell == "bash") return printing(bash());
  if (shell == "zsh") return printing(zsh());
  if (shell == "fish") return printing(fish());
  throw UsageError(
      harness::unknown_name(shell, "completion", std::vector<std::string>{"bash", "zsh", "fish"}));
}

}  // namespace stbench
