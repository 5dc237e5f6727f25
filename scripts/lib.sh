# Shared by the scripts in this folder: messages, and packages of the system. Sourced, never run.

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"

say() {
    printf '==> %s\n' "$*" >&2
}

# fail MESSAGE [REMEDY]
fail() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  help: %s\n' "$2" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# at_least WANTED GIVEN: whether version GIVEN is WANTED or newer.
at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | sed -n 1p)" = "$1" ]
}

# apt_update: renews the lists of packages as root, or by sudo if there is one.
apt_update() {
    local root=()
    [ "$(id -u)" -eq 0 ] || ! has sudo || root=(sudo)
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >&2 ||
        say "apt-get update failed; going on with the package lists that are there"
}

# apt_install PACKAGE...: installs Debian packages as root, or by sudo, or says what is missing.
apt_install() {
    local root=()
    has apt-get || fail "missing: $*" "install them with your system's package manager (these are their names in Debian)"
    if [ "$(id -u)" -ne 0 ]; then
        has sudo || fail "missing: $*" "as root: apt-get update && apt-get install -y $*"
        root=(sudo)
    fi
    say "apt-get install $*"
    apt_update
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2 ||
        fail "apt-get could not install: $*" "see its message above; is the network up?"
}

# install_tool PROGRAM VERSION: puts a program for Rust's developers into .tools/bin, prebuilt from PyPI; building one takes minutes.
install_tool() {
    local downloads
    "$ROOT/scripts/setup-python.sh"
    say "installing $1 $2 into .tools"
    downloads=$(mktemp -d)
    "$ROOT/.venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps --target "$downloads" \
        "astral-dev-toolchain-$1==$2" || fail "pip could not install $1" "see its message above; is PyPI reachable? (or: cargo install --locked $1)"
    mkdir -p .tools/bin
    install -m 755 "$downloads/bin/$1" .tools/bin/
    rm -rf "$downloads"
}
