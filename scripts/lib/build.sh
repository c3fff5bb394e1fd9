# Sets up, configures and builds what is out of date. Sourced by the launchers; fast if all is up to date.
# shellcheck shell=bash

# setup_is_current program|tests: true if the last set-up is still valid: all that it found exists, its scripts are not
# newer, and it fulfilled the wishes in the environment and in the argument.
setup_is_current() {
  local script
  [[ -e $STATE && -e $SETUP_CMAKE ]] || return
  for script in "$ROOT"/scripts/setup "$ROOT"/scripts/lib/{packages,python,charts,docs,cuda,bundle}.sh; do
    [[ ! $script -nt $STATE ]] || return
  done
  # shellcheck source=/dev/null
  . "$STATE"
  [[ -e $TORCH_ROOT/lib/libtorch_cpu.so && -x $ORACLE ]] || return
  [[ -z $NVCC || -x $NVCC ]] || return
  [[ -z $BUNDLE_DIR || -d $BUNDLE_DIR ]] || return
  [[ $1 == program || $WITH_TESTS == yes ]] || return
  [[ -z ${Torch_DIR:-} || $(readlink -m -- "$Torch_DIR") == "$WISH_TORCH" ]]
}

# ensure_setup program|tests: also locks the build folder, and sets the variables that set-up found.
ensure_setup() {
  local -a options=()
  [[ $1 == program ]] || options=(--tests)
  take_lock "$ROOT/build/.lock" 9 'building in this checkout'
  setup_is_current "$1" || "$ROOT/scripts/setup" "${options[@]}" 9>&- || exit
  # shellcheck source=/dev/null
  . "$STATE"
  [[ -z $BUNDLE_DIR ]] || PATH=$BUNDLE_DIR/bin:$PATH
}

release_build_lock() { exec 9>&-; }

# A file that includes LibTorch takes up to 2.7 GB to compile.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ { print int($2 / 2700000) }' /proc/meminfo)
  echo $((memory < 1 ? 1 : memory < cores ? memory : cores))
}

# ensure_configured PRESET [-DNAME=VALUE]...: configures if that was not done yet, or with other values, or if set-up has
# changed since.
ensure_configured() {
  local preset=$1 folder=$ROOT/build/$1 wanted
  shift
  wanted="$* "
  if [[ -e $folder/build.ninja && -e $folder/.configured && ! $SETUP_CMAKE -nt $folder/.configured &&
    $(<"$folder/.configured") == *"$wanted"* ]]; then
    return
  fi
  say "configuring build/$preset"
  # The old cache may have paths into a LibTorch or toolkit that is no longer used.
  [[ ! $SETUP_CMAKE -nt $folder/.configured ]] || rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles/"[0-9]*
  (cd "$ROOT" && cmake -C "$SETUP_CMAKE" --preset "$preset" "$@" >&2) 9>&- || return
  printf '%s ' "$@" >"$folder/.configured"
}

# ./test sets this: a command that starts test programs, which run once after their build to list their tests.
WITHOUT_ASLR=()

# Ninja's steps at each start, even if nothing has changed: these do not count as building.
readonly EVERY_START='\] (Re-checking globbed directories|Looking up the git revision)|^ninja: (Entering directory|no work)'

# show_progress FOLDER: ninja's lines from the first real step on; on a terminal the steps share one line.
show_progress() {
  local line begun=no
  while IFS= read -r line; do
    [[ ! $line =~ $EVERY_START ]] || continue
    [[ $begun == yes ]] || say "building in $1"
    begun=yes
    if [[ -t 2 && $line == '['*/*']'* ]]; then
      printf '\r\e[K%.*s' "${COLUMNS:-80}" "$line" >&2
    else
      printf '%s\n' "$line" >&2
    fi
  done
  [[ ! -t 2 || $begun == no ]] || printf '\n' >&2
}

# with_shared_cache COMMAND...: if there is a ccache, COMMAND reuses compilations of other checkouts of the same sources. It
# takes compilations with a precompiled header (cmake/Precompiled.cmake) only with this sloppiness.
with_shared_cache() {
  CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:+$CCACHE_SLOPPINESS,}pch_defines,time_macros "$@"
}

# ensure_built PRESET TARGET...
ensure_built() {
  local folder=$ROOT/build/$1
  shift
  NINJA_STATUS='[%f/%t, %es] ' with_shared_cache "${WITHOUT_ASLR[@]}" ninja -C "$folder" -j "$(build_jobs)" "$@" 2>&1 9>&- |
    show_progress "build/${folder##*/}"
}
