#!/usr/bin/env bash
# What building the daemons needs beyond setup-build.sh: the compiler of etcd's protocol; a compiler of eBPF programs and the kernel's
# headers; and what libbpf, which is built along, is made of. `weft` itself needs none of it.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The Makefile of libbpf ends a name at a space.
case ${CARGO_TARGET_DIR:-$ROOT/target} in
    *[[:space:]]*) fail "the daemons cannot be built in a folder whose path has a space: ${CARGO_TARGET_DIR:-$ROOT/target}" "move the checkout, or set CARGO_TARGET_DIR to a folder elsewhere" ;;
esac

missing=()
# The compiler, and the standard .proto files that it includes.
{ has protoc && [ -e /usr/include/google/protobuf/descriptor.proto ]; } || missing+=(protobuf-compiler libprotobuf-dev)
if [ "$(uname -s)" = Linux ]; then
    has clang || missing+=(clang)
    has make || missing+=(make)
    has pkg-config || missing+=(pkg-config)
    [ -e /usr/include/libelf.h ] || missing+=(libelf-dev)
    [ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
    [ -e /usr/include/linux/bpf.h ] || missing+=(linux-libc-dev)
fi
[ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
