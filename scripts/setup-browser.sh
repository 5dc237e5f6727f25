#!/usr/bin/env bash
# A Chromium for the tests that open the report: any of the usual names, or else Debian's package.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for name in "${CHROMIUM:-chromium}" chromium chromium-browser google-chrome; do
    has "$name" && exit 0
done
apt_install chromium
