# The Python of the charts: one that has the pinned packages, or a separate environment in the cache. Sourced after python.sh.
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

# charts_tools require_tools | offer_tools
charts_tools() { "$1" "$(charts_folder)" charts 'charts' 110 altair vl_convert; }

# require_charts_python: sets CHARTS_PYTHON, and installs one if needed.
require_charts_python() {
  CHARTS_PYTHON=$(find_charts_python)
  [[ -z $CHARTS_PYTHON ]] || return 0
  charts_tools require_tools
  CHARTS_PYTHON=$(find_charts_python)
  [[ -n $CHARTS_PYTHON ]] || fail "the environment of the charts in $(charts_folder) is damaged" \
    'remove it and start again'
}

offer_charts_python() { [[ -n $(find_charts_python) ]] || charts_tools offer_tools; }
