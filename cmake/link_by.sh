#!/bin/sh
# usage: link_by.sh LINKER COMPILER ARGUMENT...: links with LINKER where CMake would link with COMPILER.
linker=$1
shift 2
exec "$linker" "$@"
