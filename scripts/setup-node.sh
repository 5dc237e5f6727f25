#!/usr/bin/env bash
# What building the daemons needs beyond setup-build.sh: the compiler of etcd's protocol.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The compiler, and the standard .proto files that it includes.
{ has protoc && [ -e /usr/include/google/protobuf/descriptor.proto ]; } || apt_install protobuf-compiler libprotobuf-dev
