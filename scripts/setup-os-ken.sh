#!/usr/bin/env bash
# What the test of the OpenFlow codec compares it with: os-ken, OpenStack's OpenFlow controller, and the packets of its own tests, in .tools/os-ken.
#
# Only its parser is used: these packages are all that it imports.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages=(os-ken==4.1.0 netaddr==1.3.0 oslo.config==10.7.0 packaging==26.3 pbr==7.1.3 rfc3986==2.0.0 stevedore==5.10.0)

stamp=.tools/os-ken/weft-packages
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "${packages[*]}" ]; then
    exit 0
fi

scripts/setup-python.sh
say "installing os-ken into .tools"
rm -rf .tools/os-ken
.venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check --root-user-action ignore --no-deps --only-binary :all: \
    --target .tools/os-ken "${packages[@]}" || fail "pip could not install os-ken" "see its message above; is PyPI reachable?"
printf '%s' "${packages[*]}" >"$stamp"
