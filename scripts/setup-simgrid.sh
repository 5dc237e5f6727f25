#!/usr/bin/env bash
# What the comparison with SimGrid wants (benches/simgrid): SimGrid with its headers, and a C++ compiler.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

missing=()
has "${CXX:-g++}" || missing+=(g++)
[ -e /usr/include/simgrid/s4u.hpp ] || missing+=(libsimgrid-dev)
[ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
