# LibTorch and the Python of the tests: the user's own, or the pinned wheels in the cache. Sourced by scripts/setup.
# shellcheck shell=bash

readonly TORCH_PINNED=2.11.0
readonly TORCH_AT_LEAST=2.7  # the first whose wheels have the C++11 ABI; only the pinned version was tested
readonly WHEELS=$ROOT/scripts/lib/wheels  # NAME.in names wheels; NAME.txt locks them and their dependencies by hash

# The folder of one Python's package torch, without importing it (that takes seconds). Runs from /, so that a folder
# called torch in the working directory is not mistaken for it.
torch_root_of() {
  (cd / && "$1" -c 'import importlib.util, os
spec = importlib.util.find_spec("torch")
print(os.path.dirname(spec.origin) if spec and spec.origin else "")' 2>/dev/null) || true
}

torch_version_in() {
  local file=$1/include/torch/headeronly/version.h
  [[ -e $file ]] || file=$1/include/torch/csrc/api/include/torch/version.h
  [[ -e $file ]] || return 0
  sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$file" | paste -sd .
}

# Prints why the LibTorch in a folder cannot be used; prints nothing if it can.
torch_fault() {
  local version
  [[ -e $1/lib/libtorch_cpu.so && -e $1/include/ATen/ATen.h && -e $1/share/cmake/Torch/TorchConfig.cmake ]] ||
    { echo 'has no headers, libraries and CMake files of LibTorch'; return; }
  version=$(torch_version_in "$1")
  version_at_least "${version:-0}" "$TORCH_AT_LEAST" ||
    echo "is version ${version:-unknown}; $TORCH_AT_LEAST or later is needed"
}

candidate_pythons() {
  local python
  for python in "${VIRTUAL_ENV:-/nowhere}/bin/python3" "${CONDA_PREFIX:-/nowhere}/bin/python3" \
    "$(command -v python3 || true)" /usr/bin/python3; do
    [[ -x $python ]] && printf '%s\n' "$python"
  done | awk '!seen[$0]++'
}

# The Python whose torch is in a folder, if found: that of the environment around it, or one on the PATH.
python_of_torch() {
  local python
  for python in "${1%/lib/python3*}/bin/python3" $(candidate_pythons); do
    [[ -x $python && $(torch_root_of "$python") == "$1" ]] && { printf '%s' "$python"; return; }
  done
  return 0
}

# use_named_torch FOLDER: the folder with TorchConfig.cmake, or LibTorch's top folder.
use_named_torch() {
  local root=$1 fault
  [[ -e $root/TorchConfig.cmake ]] && root=$root/../../..
  root=$(readlink -m -- "$root")
  fault=$(torch_fault "$root")
  [[ -z $fault ]] || fail "Torch_DIR=$1: this $fault" \
    'name the folder that holds TorchConfig.cmake (…/share/cmake/Torch of a LibTorch), or unset Torch_DIR'
  TORCH_ROOT=$root
  TORCH_PYTHON=$(python_of_torch "$root")
}

# use_installed_torch: the first suitable Python torch on this machine; fails if there is none.
use_installed_torch() {
  local python root fault
  while read -r python; do
    root=$(torch_root_of "$python")
    [[ -n $root ]] || continue
    fault=$(torch_fault "$root")
    if [[ -z $fault ]]; then
      TORCH_ROOT=$root TORCH_PYTHON=$python
      return
    fi
    say "the torch of $python $fault; not used"
  done < <(candidate_pythons)
  return 1
}

require_space() {  # require_space GIGABYTES WHAT
  local free
  free=$(df -Pk "$CACHE" | awk 'NR == 2 { print int($4 / 1000000) }')
  ((free >= $1)) || fail "$2 needs $1 GB in $CACHE, and $free GB are free there" \
    'make room, or set XDG_CACHE_HOME to a folder on a larger disk'
}

# make_venv FOLDER LOCK [MODULE...]: a virtual environment with only the wheels of a lock file; pip refuses other hashes.
# The environment's scripts contain its path, so it cannot be made elsewhere and moved. The stamp, written last, says that
# it is complete. pip would compile all 9,000 files of the tests' environment (110 of 190 s of CPU). Importing the given
# modules compiles only what is used.
make_venv() {
  local folder=$1 lock=$2 modules
  rm -rf "$folder"
  "${VENV_PYTHON:-python3}" -m venv ${VENV_FLAGS:+"$VENV_FLAGS"} "$folder" >&2 || fail "python3 -m venv $folder failed" \
    'its message is above; on Debian the package python3-venv brings it'
  [[ -z ${VENV_PARENT_SITE:-} ]] || printf '%s\n' "$VENV_PARENT_SITE" >"$(venv_site "$folder")/parent.pth"
  mkdir -p "$CACHE/tmp"
  TMPDIR=$CACHE/tmp "$folder/bin/python3" -m pip install --no-cache-dir --no-compile --retries 2 \
    --disable-pip-version-check --require-hashes -r "$lock" >&2 ||
    fail "pip could not install the wheels of $lock" 'its messages are above; without network see docs/install.md'
  modules=$(IFS=, && printf '%s' "${*:3}")
  [[ -z $modules ]] || (cd / && PYTHONDONTWRITEBYTECODE='' "$folder/bin/python3" -c "import $modules") >&2 ||
    fail "the wheels of $lock are installed, and one of them cannot be imported" 'the message is above'
  touch "$folder/.complete"
}

# locked_folder NAME: the folder in the cache for an environment of python3 with exactly the wheels of NAME.txt.
locked_folder() {
  printf '%s/%s-%s-%s' "$CACHE" "$1" "$(python3 -c 'import sys; print("py%d.%d" % sys.version_info[:2])')" \
    "$(sha256sum <"$WHEELS/$1.txt" | cut -c 1-12)"
}

# Environments of single scripts. They are not part of LibTorch's, so that a set-up without them stays the same. Arguments of
# the three functions: FOLDER, the NAME of the lock file, WHAT needs it, its size in MEGABYTES, and MODULEs to import.

make_tools() {
  require_packages venv
  mkdir -p "$CACHE"
  say "$3: installing the wheels of scripts/lib/wheels/$2.in into $1 (once; about $4 MB)"
  make_venv "$1" "$WHEELS/$2.txt" "${@:5}"
}

# require_tools FOLDER NAME WHAT MEGABYTES MODULE...: makes the environment if it is not there.
require_tools() {
  [[ ! -e $1/.complete ]] || return 0
  [[ -z ${BUNDLE_DIR:-} ]] || fail "$3: the Python packages of scripts/lib/wheels/$2.in are needed, and a bundle has none" \
    'do this on a machine with network; the result can be copied'
  take_lock "$CACHE/.lock" 8 'setting up'
  [[ -e $1/.complete ]] || make_tools "$@"
  exec 8>&-
}

# offer_tools FOLDER NAME WHAT MEGABYTES MODULE...: for the tests, by a set-up, which has the lock. Without the environment
# its tests are skipped and say so.
offer_tools() {
  [[ -z $BUNDLE_DIR && ! -e $1/.complete ]] || return 0
  (make_tools "$@") || say "$3: continuing without; the tests will be skipped"
}

venv_site() { "$1/bin/python3" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

use_cached_torch() {
  local folder
  folder=$CACHE/torch-$TORCH_PINNED-py$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  if [[ ! -e $folder/.complete ]]; then
    require_space 8 "LibTorch $TORCH_PINNED"
    say "LibTorch: installing the wheel torch==$TORCH_PINNED into $folder (once; about 4.7 GB and a few minutes)"
    make_venv "$folder" "$WHEELS/torch.txt" torch "${ORACLE_MODULE[@]}"
  fi
  TORCH_PYTHON=$folder/bin/python3
  TORCH_ROOT=$(torch_root_of "$TORCH_PYTHON")
  [[ -n $TORCH_ROOT ]] || fail "the cached LibTorch in $folder is damaged" "remove it and start again: rm -r $folder"
}

# choose_torch WISH: `auto`, `wheel` or a folder. Sets TORCH_ROOT and TORCH_PYTHON (empty if LibTorch has none).
choose_torch() {
  case $1 in
    auto) use_installed_torch || fetch_torch ;;
    wheel) fetch_torch ;;
    *) use_named_torch "$1" ;;
  esac
  say "LibTorch $(torch_version_in "$TORCH_ROOT"): $TORCH_ROOT"
}

fetch_torch() {
  [[ -z $BUNDLE_DIR ]] || fail 'no LibTorch found, and a set-up from a bundle fetches nothing' \
    'name one: scripts/setup --torch DIR, the folder that holds TorchConfig.cmake'
  require_packages build venv
  use_cached_torch
}

has_modules() {
  "$1" -c 'import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))' "${@:2}" 2>/dev/null
}

# The packages that the tests' Python needs beside torch, each with its module.
readonly -A ORACLE_MODULE=([numpy]=numpy [pandas]=pandas [jsonschema]=jsonschema [scikit-learn]=sklearn
  [safetensors]=safetensors)
readonly ORACLE_PACKAGES=(numpy pandas jsonschema scikit-learn safetensors)

# choose_oracle: sets ORACLE, the Python that the tests compare with. Packages that the user's installation lacks go into
# a separate environment on top of it, never into the user's.
choose_oracle() {
  local base=${TORCH_PYTHON:-$(command -v python3)} folder
  ORACLE=$base
  [[ $WITH_TESTS == yes ]] || return 0
  has_modules "$base" "${ORACLE_MODULE[@]}" && return
  if [[ -n $BUNDLE_DIR ]]; then
    say "the tests that need ${ORACLE_PACKAGES[*]} will be skipped: $base lacks one of them, and a bundle holds none"
    return
  fi
  require_packages venv
  folder=$CACHE/oracle-$("$base" -c 'import sys; print("py%d.%d" % sys.version_info[:2])')-$(
    printf '%s' "$base ${ORACLE_PACKAGES[*]}" | sha256sum | cut -c 1-12)
  if [[ ! -e $folder/.complete ]]; then
    say "adding ${ORACLE_PACKAGES[*]} to $base in a separate environment: $folder"
    make_oracle "$base" "$folder"
  fi
  ORACLE=$folder/bin/python3
}

# without_packages LOCK NAME...: a lock file without some packages.
without_packages() {
  awk -v names=" ${*:2} " '/^[^ #]/ { split($1, part, "=="); keep = !index(names, " " part[1] " ") } keep' "$1"
}

make_oracle() {
  local package there=()
  for package in "${ORACLE_PACKAGES[@]}"; do
    ! has_modules "$1" "${ORACLE_MODULE[$package]}" || there+=("$package")
  done
  # A virtual environment made from a virtual environment sees the system's packages, not its parent's; a .pth file adds them.
  VENV_FLAGS=--system-site-packages VENV_PARENT_SITE=$("$1" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  mkdir -p "$CACHE"
  without_packages "$WHEELS/tests.txt" "${there[@]}" >"$CACHE/oracle-wheels.txt"
  make_venv "$2" "$CACHE/oracle-wheels.txt" "${ORACLE_MODULE[@]}"
}
