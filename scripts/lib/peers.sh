# The Python of the peers fbgemm, deepspeed and lance: LibTorch's Python with their packages on top, in a separate environment
# of the cache. Sourced after python.sh.
# shellcheck shell=bash

# The environment belongs to one Python, because it lies on top of it.
peers_folder() {
  printf '%s/peers-%s-%s' "$CACHE" "$("$1" -c 'import sys; print("py%d.%d" % sys.version_info[:2])')" \
    "$({ printf '%s' "$1"; cat "$WHEELS/peers.txt"; } | sha256sum | cut -c 1-12)"
}

# Compiles DeepSpeed's step into the environment, because a case has no time for it.
compile_deepspeed() {
  (cd / && TORCH_EXTENSIONS_DIR=$1/extensions PATH=$1/bin:$PATH "$1/bin/python3" -c '
from deepspeed.ops.op_builder import CPUAdamBuilder
CPUAdamBuilder().load(verbose=False)') >&2 ||
    say "the peer deepspeed: its step could not be compiled (the message is above); its cases will be waived"
}

# choose_peers: sets PEERS_PYTHON, the Python that runs peers; empty unless WITH_PEERS is yes.
choose_peers() {
  local base=${TORCH_PYTHON:-} folder
  PEERS_PYTHON=''
  [[ $WITH_PEERS == yes ]] || return 0
  [[ -z $BUNDLE_DIR ]] || fail '--peers: the packages of scripts/lib/wheels/peers.in are needed, and a bundle has none' \
    'do this on a machine with network'
  [[ -n $base ]] || fail "--peers: the LibTorch in $TORCH_ROOT has no Python" 'the peers run in the Python of a torch: --torch wheel'
  has_modules "$base" torch numpy || fail "--peers: $base has no NumPy" 'install NumPy beside torch, or take --torch wheel'
  require_packages venv peers
  folder=$(peers_folder "$base")
  if [[ ! -e $folder/.complete ]]; then
    say "peers: installing the wheels of scripts/lib/wheels/peers.in on top of $base into $folder (once; about 450 MB)"
    VENV_FLAGS=--system-site-packages VENV_PARENT_SITE=$("$base" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])') \
      make_venv "$folder" "$WHEELS/peers.txt"
    compile_deepspeed "$folder"
  fi
  # shellcheck disable=SC2034  # scripts/setup records it
  PEERS_PYTHON=$folder/bin/python3
}
