# The Python of the charts: one that has the pinned packages, or a separate environment in the cache. It is not part of
# LibTorch's environment, so a set-up without charts or without network stays the same. Sourced after python.sh.
# shellcheck shell=bash


# has_pinned PYTHON: true if it has all packages in the pinned versions, so that the same report gives the same drawing.
has_pinned() {
  [[ -x $1 ]] && (cd / && "$1" -c 'import importlib.metadata, sys
try:
    sys.exit(any(importlib.metadata.version(name) != version for name, version in
                 (line.split("==") for line in open(sys.argv[1]).read().split("\n") if "==" in line)))
except importlib.metadata.PackageNotFoundError:
    sys.exit(1)' "$WHEELS/charts.in") 2>/dev/null
}

charts_folder() { locked_folder charts; }

# The first Python that has the charts' packages; nothing if there is none.
find_charts_python() {
  local python
  for python in "$(charts_folder)/bin/python3" "${ORACLE:-/nowhere}" $(candidate_pythons); do
    if has_pinned "$python"; then
      printf '%s' "$python"
      return
    fi
  done
}

make_charts_python() {
  local folder
  folder=$(charts_folder)
  require_packages venv
  mkdir -p "$CACHE"
  say "charts: installing altair and vl-convert into $folder (once; about 110 MB)"
  make_venv "$folder" "$WHEELS/charts.txt" altair vl_convert
}

# require_charts_python: sets CHARTS_PYTHON, and installs one if needed.
require_charts_python() {
  CHARTS_PYTHON=$(find_charts_python)
  [[ -z $CHARTS_PYTHON ]] || return 0
  [[ -z $BUNDLE_DIR ]] || fail 'charts need the Python packages altair and vl-convert-python, and a bundle has neither' \
    "on a machine with network: pip install -r scripts/lib/wheels/charts.txt, or draw the reports there"
  take_lock "$CACHE/.lock" 8 'setting up'
  [[ -e $(charts_folder)/.complete ]] || make_charts_python
  exec 8>&-
  CHARTS_PYTHON=$(find_charts_python)
  [[ -n $CHARTS_PYTHON ]] || fail "the environment of the charts in $(charts_folder) is damaged" \
    'remove it and start again'
}

# offer_charts_python: for the tests; without it they are skipped and say so.
offer_charts_python() {
  [[ -z $BUNDLE_DIR && -z $(find_charts_python) ]] || return 0
  (make_charts_python) || say 'continuing without charts; their tests will be skipped'
}
