#!/usr/bin/env bash
# Installs all that any target of the Makefile needs, but for `make bench-simgrid`, which installs SimGrid itself
# (setup-simgrid.sh). What is there already costs nothing.

here=$(dirname "${BASH_SOURCE[0]}")
set -euo pipefail

"$here/setup-build.sh"
"$here/setup-daemons.sh"
"$here/setup-python.sh"
"$here/setup-report.sh"
"$here/setup-lab.sh"
"$here/setup-etcd.sh"
"$here/setup-bpf.sh"
"$here/setup-nextest.sh"
"$here/setup-build.sh" --lint
"$here/setup-deny.sh"
"$here/setup-site.sh"
