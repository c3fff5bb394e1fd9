#!/usr/bin/env bash
# Runs a program on the emulated GPU.
#
# usage: run.sh CONFIGURATION FOLDER PROGRAM [ARGUMENT]...
#   FOLDER has the substitutes: libcudart.so.13, libcuda.so.1, libnvidia-ml.so.1, libemulated_torch.so
#   CONFIGURATION          streams  LibTorch's allocator  GPUs  PTX of
#     lazy_cached          lazy     caching               2     the newest architecture
#     lazy_exact           lazy     a block a tensor      1     the oldest
#     eager_cached         eager    caching               1     the oldest
#     eager_exact_two      eager    a block a tensor      2     the oldest
#     eager_exact          eager    a block a tensor      1     the newest
#     checked              as lazy_exact, and finds races within a launch and reads of bytes that nobody wrote
# Each pair of two settings is in one of them. Missing waits show with lazy streams and the caching allocator, which does not
# wait where a tensor goes; accesses past the end show with a block a tensor. A test of GoogleTest writes its results under the
# name EMULATED_GPU_TEST.
set -euo pipefail

configuration=$1 folder=$2
shift 2
case $configuration in
  lazy_cached) settings=(lazy 0 2 newest) ;;
  lazy_exact) settings=(lazy 1 1 oldest) ;;
  eager_cached) settings=(eager 0 1 oldest) ;;
  eager_exact_two) settings=(eager 1 2 oldest) ;;
  eager_exact) settings=(eager 1 1 newest) ;;
  checked) settings=(lazy 1 1 oldest) && export EMULATED_GPU_CHECKS=races,unwritten ;;
  *) echo "run.sh: no configuration $configuration; its head lists them" >&2; exit 2 ;;
esac
export EMULATED_GPU_STREAMS=${settings[0]} EMULATED_GPU_DEVICES=${settings[2]} EMULATED_GPU_PTX=${settings[3]}
if [[ ${settings[1]} == 1 ]]; then
  export PYTORCH_NO_CUDA_MEMORY_CACHING=1
else
  unset PYTORCH_NO_CUDA_MEMORY_CACHING
fi
export EMULATED_GPU_TORCH=$folder/libemulated_torch.so
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset CUDA_VISIBLE_DEVICES
[[ ${GTEST_OUTPUT:-} != xml:*/ ]] || export GTEST_OUTPUT+=${EMULATED_GPU_TEST:-$(basename "$1")}.xml
exec "$@"
