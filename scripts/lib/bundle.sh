# Unpacks an archive of scripts/bundle into the cache, without root and without network. Sourced by scripts/setup.
# shellcheck shell=bash

# verify_bundle FOLDER: each file is listed, each listed file exists, each hash is right.
verify_bundle() {
  (cd "$1" && [[ -e manifest.sha256 ]] && sha256sum --check --quiet --strict manifest.sha256 >&2 &&
    diff <(cut -c 67- manifest.sha256 | sort) <(find . -type f ! -name manifest.sha256 -printf '%P\n' | sort) >&2)
}

tar_flag() {
  case $1 in
    *.xz) echo -J ;;
    *.zst) echo --zstd ;;
    *) echo -z ;;
  esac
}

unpack_deb() {  # unpack_deb FILE FOLDER
  local data
  if command -v dpkg-deb >/dev/null; then
    dpkg-deb --extract "$1" "$2"
  else
    data=$(ar t "$1" | grep '^data\.tar') && ar p "$1" "$data" |
      tar -x -C "$2" "$(tar_flag "$data")"
  fi
}

# A package's .pc file says /usr; here the package is elsewhere.
relocate_pkgconfig() {  # relocate_pkgconfig FOLDER FINAL-FOLDER
  find "$1" -name '*.pc' -exec sed -i "s|=/usr|=$2/usr|" {} +
}

machine_has_tool() {
  command -v "$1" >/dev/null || return
  [[ $1 != cmake ]] || version_at_least "$(cmake_version)" "$CMAKE_AT_LEAST"
}

# add_tool FOLDER NAME PROGRAM: puts the tool into the bundle's bin folder if the machine has no suitable one.
add_tool() {
  [[ -n $3 && -e $1/$3 ]] || return 0
  ! machine_has_tool "$2" || return 0
  printf '#!/bin/sh\nexport LD_LIBRARY_PATH="%s:$LD_LIBRARY_PATH"\nexec "%s" "$@"\n' \
    "$BUNDLE_PREFIX/lib/x86_64-linux-gnu" "$BUNDLE_DIR/$3" >"$1/bin/$2"
  chmod +x "$1/bin/$2" "$1/$3"
}

unpack_wheel() { python3 -m zipfile -e "$1" "$2"; }

unpack_bundle() {  # unpack_bundle FILE FOLDER
  local part=$2.partial file
  rm -rf "$part" && mkdir -p "$part/packed" "$part/sysroot" "$part/wheels" "$part/bin"
  tar -xf "$1" -C "$part/packed" || fail "$1 is not an archive of scripts/bundle, or is damaged" 'make or copy it again'
  verify_bundle "$part/packed" || fail "$1 is damaged: it does not match its manifest (above)" 'make or copy it again'
  for file in "$part"/packed/*.deb; do
    unpack_deb "$file" "$part/sysroot"
  done
  for file in "$part"/packed/*.whl; do
    [[ ! -e $file ]] || unpack_wheel "$file" "$part/wheels"
  done
  relocate_pkgconfig "$part/sysroot" "$2/sysroot"
  add_tool "$part" pkg-config sysroot/usr/bin/pkgconf
  add_tool "$part" ninja "$(cd "$part" && find wheels -name ninja -type f)"
  add_tool "$part" ctest "$(cd "$part" && find wheels -path '*/bin/ctest' -type f)"
  add_tool "$part" cmake "$(cd "$part" && find wheels -path '*/bin/cmake' -type f)"
  rm -rf "$part/packed"
  mv -T "$part" "$2"
}

# use_bundle FILE: sets BUNDLE_DIR, BUNDLE_PREFIX and the PATH.
use_bundle() {
  local hash
  [[ -r $1 ]] || fail "--bundle $1: no such file, or not readable" 'scripts/bundle OUT.tar makes one, on a machine with network'
  hash=$(sha256sum "$1" | cut -c 1-16)
  BUNDLE_DIR=$CACHE/bundle-$hash BUNDLE_PREFIX=$CACHE/bundle-$hash/sysroot/usr
  if [[ ! -d $BUNDLE_DIR ]]; then
    say "unpacking $1 into $BUNDLE_DIR"
    unpack_bundle "$1" "$BUNDLE_DIR"
  fi
  enter_bundle
}

enter_bundle() {
  BUNDLE_PREFIX=$BUNDLE_DIR/sysroot/usr
  PATH=$BUNDLE_DIR/bin:$PATH
}
