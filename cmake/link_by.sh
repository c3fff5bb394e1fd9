#!/bin/sh
# usage: link_by.sh LINKER COMPILER ARGUMENT...: links by LINKER what CMake would have linked by COMPILER.
linker=$1
shift 2
exec "$linker" "$@"
