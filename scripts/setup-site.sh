#!/usr/bin/env bash
# The virtual environment .tools/site with the pinned packages of scripts/site/requirements.txt, which build the site.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

requirements=scripts/site/requirements.txt
environment=.tools/site
python=${PYTHON:-python3}

has "$python" || apt_install python3 python3-venv

# The stamp records for which interpreter and which packages the environment was made.
stamp=$environment/requirements
key="$("$python" -c 'import sys; print(sys.version, sys.executable)') $(sha256sum "$requirements")"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ] && "$environment/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

say "installing the site generator into $environment"
rm -rf "$environment"
mkdir -p "$(dirname "$environment")"
if ! "$python" -m venv "$environment" >/dev/null 2>&1; then
    rm -rf "$environment"
    apt_install python3-venv # Debian ships Python without ensurepip
    "$python" -m venv "$environment" || fail "$python cannot make a virtual environment" "install the venv module of $python"
fi
"$environment/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --requirement "$requirements" ||
    fail "pip could not install $requirements" "see its message above; is PyPI reachable?"
printf '%s\n' "$key" >"$stamp"
