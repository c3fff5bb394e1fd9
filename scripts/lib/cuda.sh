# The CUDA toolkit that matches LibTorch: the machine's, or the compiler wheels in the cache. Sourced by scripts/setup.
# shellcheck shell=bash

readonly CUDA_WHEELS=13.0  # of scripts/lib/wheels/cuda.in
readonly CUDA_12_AT_LEAST=12.8  # the first that knows compute capability 10.0

# The CUDA major version that LibTorch was built with; nothing for a CPU-only one.
torch_cuda_major() {
  [[ -e $1/lib/libc10_cuda.so ]] || return 0
  grep -ao 'libcudart[^ /]*\.so\.[0-9]*' "$1/lib/libc10_cuda.so" | head -n 1 | sed 's/.*\.so\.//'
}

nvcc_version() { "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p'; }

candidate_nvccs() {
  local nvcc
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/nowhere}/bin/nvcc" \
    "${CUDA_PATH:-/nowhere}/bin/nvcc" /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc; do
    [[ -n $nvcc && -x $nvcc ]] && printf '%s\n' "$nvcc"
  done | awk '!seen[$0]++'
}

# use_system_toolkit MAJOR: sets NVCC; fails if the machine has no toolkit of that major version.
use_system_toolkit() {
  local nvcc version
  while read -r nvcc; do
    version=$(nvcc_version "$nvcc")
    if [[ ${version%%.*} == "$1" ]] && { [[ $1 != 12 ]] || version_at_least "$version" "$CUDA_12_AT_LEAST"; }; then
      NVCC=$nvcc
      return
    fi
    say "CUDA toolkit ${version:-of unknown version} of $nvcc does not match LibTorch's CUDA $1; not used"
  done < <(candidate_nvccs)
  return 1
}

# A Python with pip: LibTorch's, or a small separate environment.
pip_python() {
  if [[ -n $TORCH_PYTHON ]] && has_modules "$TORCH_PYTHON" pip; then
    printf '%s' "$TORCH_PYTHON"
    return
  fi
  [[ -e $CACHE/pip/.complete ]] || { require_packages venv && python3 -m venv "$CACHE/pip" >&2 &&
    touch "$CACHE/pip/.complete"; }
  printf '%s' "$CACHE/pip/bin/python3"
}

# The wheels have only `lib/libcudart.so.13`; linkers look for `libcudart.so`, and nvcc for `lib64`.
link_toolkit() {
  local library
  for library in "$1"/lib/lib*.so.*; do
    [[ -e $library ]] || fail "the CUDA wheels hold no libraries in $1/lib" 'remove that folder and start again'
    ln -sf "${library##*/}" "${library%%.so.*}.so"
  done
  ln -sfn lib "$1/lib64"
}

fetch_toolkit() {
  local folder=$CACHE/cuda-$CUDA_WHEELS python
  if [[ ! -d $folder ]]; then
    [[ -z $BUNDLE_DIR ]] || fail 'no CUDA toolkit found, and a set-up from a bundle fetches nothing' \
      'set CUDACXX to an nvcc, or take the host part only: scripts/setup --cuda none'
    python=$(pip_python)
    require_space 2 'the CUDA compiler'
    say "CUDA toolkit: installing the compiler wheels $CUDA_WHEELS into $folder (once; about 0.5 GB)"
    rm -rf "$folder.partial"
    "$python" -m pip install --no-cache-dir --retries 2 --disable-pip-version-check --no-deps \
      --target "$folder.partial" --require-hashes -r "$WHEELS/cuda.txt" >&2 ||
      fail 'pip could not install the CUDA compiler wheels' \
        'its messages are above; the host part alone needs none: scripts/setup --cuda none'
    link_toolkit "$folder.partial/nvidia/cu13"
    mv -T "$folder.partial" "$folder"
  fi
  NVCC=$folder/nvidia/cu13/bin/nvcc
}

# choose_cuda WISH: `auto`, `system`, `wheels` or `none`. Sets NVCC, empty for a build without CUDA kernels.
choose_cuda() {
  local major
  major=$(torch_cuda_major "$TORCH_ROOT")
  NVCC=
  if [[ $1 == none ]]; then
    say 'CUDA: not built, as asked (--cuda none); host rows only'
  elif [[ -z $major ]]; then
    [[ $1 == auto ]] || fail "--cuda $1: this LibTorch is CPU-only: $TORCH_ROOT" 'name one built with CUDA, or --cuda none'
    say 'CUDA: not built, because this LibTorch is CPU-only; host rows only'
  else
    find_toolkit "$1" "$major"
    say "CUDA toolkit $(nvcc_version "$NVCC"): $NVCC"
  fi
}

find_toolkit() {
  [[ $1 == wheels ]] || ! use_system_toolkit "$2" || return 0
  [[ $1 != system ]] || fail "--cuda system: no CUDA $2 toolkit on this machine" \
    'install one, set CUDACXX to its nvcc, or let --cuda wheels fetch the compiler'
  [[ $2 == "${CUDA_WHEELS%%.*}" ]] || fail "no CUDA $2 toolkit on this machine, which this LibTorch asks for" \
    "install one and set CUDACXX to its nvcc, or take the host part only: scripts/setup --cuda none"
  fetch_toolkit
}
