# Messages, places, versions and locks, shared by the launchers and the scripts. Sourced after ROOT is set.
# shellcheck shell=bash

readonly STATE=$ROOT/build/setup.state        # the result of set-up, as shell assignments
readonly SETUP_CMAKE=$ROOT/build/setup.cmake  # the same for CMake, read with `cmake -C`

# Standard output belongs to the program (`--json -`), so all messages of the scripts go to standard error.
say() { printf 'stbench: %s\n' "$*" >&2; }

# fail LINE...: prints the problem, the value and the cure; exit status 2.
fail() {
  printf 'stbench: %s\n' "$1" >&2
  (($# < 2)) || printf '  %s\n' "${@:2}" >&2
  exit 2
}

# option_value NAME COUNT VALUE: the value of an option that needs one. COUNT is the number of words left, with the name.
option_value() {
  (($2 >= 2)) || fail "$1 needs a value" "${0##*/} --help lists the options"
  printf '%s' "$3"
}

# version_at_least 3.25.1 3.22
version_at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]; }

cache_dir() {
  if [[ -n ${XDG_CACHE_HOME:-} ]]; then
    printf '%s/stbench' "$XDG_CACHE_HOME"
  elif [[ -n ${HOME:-} ]]; then
    printf '%s/.cache/stbench' "$HOME"
  else
    fail 'no place for the cache: neither XDG_CACHE_HOME nor HOME is set' 'set XDG_CACHE_HOME to a folder'
  fi
}

# take_lock FILE DESCRIPTOR WHAT: waits for another start that does WHAT. The lock ends with the descriptor.
take_lock() {
  mkdir -p "$(dirname "$1")" || fail "cannot create the folder of $1" 'make its parent folder writable'
  eval "exec $2>\"\$1\"" || fail "cannot write to $1" 'make its folder writable'
  flock -n "$2" && return
  say "another start is $3; waiting for it"
  flock "$2"
}
