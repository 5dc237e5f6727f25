#!/usr/bin/env bash
# What building the daemons needs beyond setup-build.sh: the compiler of etcd's protocol.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

has protoc || apt_install protobuf-compiler
