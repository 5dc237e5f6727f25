#!/usr/bin/env bash
# What the fault tests want to lose datagrams with, and the tests of the data plane: a compiler of eBPF programs, their headers, `ip` and
# `tc` to put them in place, and tshark to read what is on the wire.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Linux only: elsewhere there is nothing to put such a program into.
[ "$(uname -s)" = Linux ] || exit 0
{ has clang && has llvm-objdump && [ -e /usr/include/bpf/bpf_helpers.h ]; } || apt_install clang llvm libbpf-dev
{ has ip && has tc; } || apt_install iproute2
"$(dirname "${BASH_SOURCE[0]}")/setup-capture.sh"
"$(dirname "${BASH_SOURCE[0]}")/setup-exporters.sh"
