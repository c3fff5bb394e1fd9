# The Python of the documentation site: a separate environment in the cache, made when scripts/docs or a set-up of the tests
# first needs it. Sourced after python.sh.
# shellcheck shell=bash

readonly DOCS_PYTHON_AT_LEAST=3.11  # as mkdocstrings requires

docs_folder() { locked_folder docs; }

# The Python that has the packages; nothing if there is none.
find_docs_python() { [[ ! -e $(docs_folder)/.complete ]] || printf '%s/bin/python3' "$(docs_folder)"; }

make_docs_python() {
  local folder version
  folder=$(docs_folder)
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  version_at_least "$version" "$DOCS_PYTHON_AT_LEAST" ||
    fail "python3 is $version; the documentation site needs $DOCS_PYTHON_AT_LEAST or later" 'put a newer one first on the PATH'
  require_packages venv
  mkdir -p "$CACHE"
  say "documentation: installing mkdocs-material and mkdocstrings into $folder (once; about 150 MB)"
  make_venv "$folder" "$WHEELS/docs.txt" mkdocs material mkdocstrings
}

# require_docs_python: sets DOCS_PYTHON, and installs one if needed.
require_docs_python() {
  DOCS_PYTHON=$(find_docs_python)
  [[ -z $DOCS_PYTHON ]] || return 0
  [[ -z $BUNDLE_DIR ]] || fail 'the documentation site needs the Python packages of scripts/lib/wheels/docs.in, and a bundle has none' \
    'build the site on a machine with network; it is static files, which can be copied'
  take_lock "$CACHE/.lock" 8 'setting up'
  [[ -n $(find_docs_python) ]] || make_docs_python
  exec 8>&-
  DOCS_PYTHON=$(find_docs_python)
}

# offer_docs_python: for the tests; without it those that build the site are skipped and say so.
offer_docs_python() {
  [[ -z $BUNDLE_DIR && -z $(find_docs_python) ]] || return 0
  (make_docs_python) || say 'continuing without the documentation site; its tests will be skipped'
}
