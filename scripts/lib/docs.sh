# The Python of the documentation site: a separate environment in the cache, made when scripts/docs or a set-up of the tests
# first needs it. Sourced after python.sh.
# shellcheck shell=bash

readonly DOCS_PYTHON_AT_LEAST=3.11  # as mkdocstrings requires

docs_folder() { locked_folder docs; }

# docs_tools require_tools | offer_tools
docs_tools() {
  [[ -e $(docs_folder)/.complete ]] || check_docs_version
  "$1" "$(docs_folder)" docs 'the documentation site' 150 mkdocs material mkdocstrings
}

check_docs_version() {
  local version
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  version_at_least "$version" "$DOCS_PYTHON_AT_LEAST" ||
    fail "python3 is $version; the documentation site needs $DOCS_PYTHON_AT_LEAST or later" 'put a newer one first on the PATH'
}

# Prints the Python that has the packages, if there is one.
find_docs_python() { [[ ! -e $(docs_folder)/.complete ]] || printf '%s/bin/python3' "$(docs_folder)"; }

# require_docs_python: sets DOCS_PYTHON, and installs one if needed.
require_docs_python() {
  docs_tools require_tools
  DOCS_PYTHON=$(find_docs_python)
}

offer_docs_python() { (docs_tools offer_tools) || say 'the documentation site: continuing without; its tests will be skipped'; }
