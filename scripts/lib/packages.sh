# What the build needs from the machine, and the Debian packages that bring it. Sourced by scripts/setup.
# shellcheck shell=bash

readonly CMAKE_AT_LEAST=3.22

# One need per line: its group, how to detect it (a command or a header), its Debian package.
readonly NEEDS='
build   command cmake             cmake
build   command g++               g++
build   command ninja             ninja-build
build   command pkg-config        pkg-config
build   command python3           python3
build   header  CLI/CLI.hpp       libcli11-dev
build   header  benchmark/benchmark.h libbenchmark-dev
build   header  csv.h             libcsv-dev
build   header  fmt/core.h        libfmt-dev
build   header  hwloc.h           libhwloc-dev
build   header  hwy/highway.h     libhwy-dev
build   header  nlohmann/json.hpp nlohmann-json3-dev
build   header  re2/re2.h         libre2-dev
build   header  sha2.h            libmd-dev
build   header  zlib.h            zlib1g-dev
comfort header  liburing.h        liburing-dev
comfort command ccache            ccache
comfort command git               git
comfort command bible             bible-kjv
tests   header  gtest/gtest.h     libgtest-dev
tests   header  gmock/gmock.h     libgmock-dev
checks  python  Python.h          python3-dev
checks  command strace            strace
checks  command valgrind          valgrind
checks  command mpicxx            libopenmpi-dev
checks  command mpirun            openmpi-bin
checks  command aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
checks  command qemu-aarch64      qemu-user
checks  command doxygen           doxygen
checks  browser chromium          chromium-headless-shell
peers   command fio               fio
long    command clang++-19        clang-19
long    fuzzer  19                libclang-rt-19-dev
venv    module  ensurepip         python3-venv
'

have_header() {
  local folder
  for folder in /usr/include /usr/local/include ${BUNDLE_PREFIX:+"$BUNDLE_PREFIX/include"}; do
    [[ -e $folder/$1 ]] && return
  done
  return 1
}

have_need() {
  case $1 in
    command) command -v "$2" >/dev/null ;;
    browser) command -v chromium-headless-shell >/dev/null || command -v "$2" >/dev/null ;;
    header) have_header "$2" ;;
    python) command -v python3 >/dev/null && [[ -e $(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/$2 ]] ;;
    fuzzer) compgen -G "/usr/lib/llvm-$2/lib/clang/*/lib/*/libclang_rt.fuzzer*.a" >/dev/null ;;
    module) command -v python3 >/dev/null && python3 -c "import $2" 2>/dev/null ;;
  esac
}

# missing_packages GROUP...: the Debian packages for needs of these groups that the machine lacks, one per line.
missing_packages() {
  local group kind name package
  while read -r group kind name package; do
    [[ " $* " == *" ${group:-none} "* ]] || continue
    have_need "$kind" "$name" || printf '%s\n' "$package"
  done <<<"$NEEDS"
}

may_install() { ((EUID == 0)) || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }

apt_get() {
  local -a as_root=()
  ((EUID == 0)) || as_root=(sudo -n)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@" >&2
}

# A fresh container has no package lists, and old lists name files that the mirror no longer has. So update and retry.
apt_install() {
  say "installing with apt: $*"
  apt_get install -y --no-install-recommends "$@" && return
  say 'that failed; trying once more with fresh package lists'
  apt_get update && apt_get install -y --no-install-recommends "$@" ||
    fail "apt could not install: $*" 'its messages are above; on a machine without network see scripts/bundle'
}

# require_packages GROUP...: installs missing packages, or says who can install them and how.
require_packages() {
  local -a missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if [[ -n $BUNDLE_DIR ]]; then
    fail "missing, and not in the bundle: ${missing[*]}" 'install these on this machine; CMake comes with scripts/bundle --with-cmake'
  elif ! command -v apt-get >/dev/null; then
    fail "missing: ${missing[*]} (these are Debian's package names)" \
      "install them with this system's package manager and start again (tried on Debian 12 only)"
  elif ! may_install; then
    fail "missing: ${missing[*]}; without root they cannot be installed. Ask an administrator for:" \
      "sudo apt-get install -y ${missing[*]}"
  fi
  apt_install "${missing[@]}"
}

# Installs optional packages if it can, one by one if not all at once, and never stops set-up. `comfort` is convenient;
# tests that lack one of `checks`, or of `long` (./test --long), are skipped and say so.
offer_packages() {
  local package
  local -a missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]})) && [[ -z $BUNDLE_DIR ]] && command -v apt-get >/dev/null && may_install; then
    say "installing with apt: ${missing[*]}"
    apt_get install -y --no-install-recommends "${missing[@]}" && return
    apt_get update || true
    for package in "${missing[@]}"; do
      apt_get install -y --no-install-recommends "$package" || say "continuing without $package"
    done
  fi
}

cmake_version() { cmake --version | sed -n '1s/[^0-9]*//p'; }

require_cmake_version() {
  local version
  version=$(cmake_version)
  version_at_least "$version" "$CMAKE_AT_LEAST" ||
    fail "cmake $version is too old; $CMAKE_AT_LEAST or later is needed" \
      'python3 -m pip install --user cmake brings a newer one'
}
