#!/usr/bin/env bash
# The virtual environment .venv with the pinned packages of python/requirements-dev.txt.
# PYTHON=python3.12 chooses another interpreter.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

requirements=python/requirements-dev.txt
python=${PYTHON:-python3}
oldest=3.11 # of the pinned packages; the built package itself runs on 3.10 as well

has "$python" || apt_install python3 python3-venv
given=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
at_least "$oldest" "$given" || fail "Python $given is too old: the tests need $oldest or newer" "set PYTHON to a newer one: PYTHON=python3.12 make test"

# The stamp says for which interpreter and which packages .venv was made.
stamp=.venv/weft-requirements
key="$("$python" -c 'import sys; print(sys.version, sys.executable)') $(sha256sum "$requirements")"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ] && .venv/bin/python -c '' 2>/dev/null; then
    exit 0
fi

say "making .venv with Python $given"
rm -rf .venv
if ! "$python" -m venv .venv >/dev/null 2>&1; then
    rm -rf .venv
    apt_install python3-venv # Debian ships Python without ensurepip
    "$python" -m venv .venv || fail "$python cannot make a virtual environment" "install the venv module of Python $given"
fi
.venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check --requirement "$requirements" ||
    fail "pip could not install $requirements" "see its message above; is PyPI reachable?"
printf '%s\n' "$key" >"$stamp"
