#!/usr/bin/env bash
# What the tests of the report want: a Chromium to open it, and node to run the parts of its scripts that compute.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

missing=()
has chromium || has chromium-browser || has google-chrome || missing+=(chromium)
has node || missing+=(nodejs)
[ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
