#!/usr/bin/env bash
# What the tests of flow logs want: softflowd, which exports NetFlow and IPFIX, and nfcapd and nfdump, which collect and print them, in .tools/bin. Debian's
# packages are unpacked and not installed: they would start services.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

programs=(softflowd nfcapd nfdump)
missing=()
for program in "${programs[@]}"; do
    has ".tools/bin/$program" || has "$program" || missing+=("$program")
done
[ ${#missing[@]} -gt 0 ] || exit 0

has apt-get || fail "missing: ${missing[*]}" "install softflowd and nfdump with your system's package manager"
downloads=$(mktemp -d)
trap 'rm -rf "$downloads"' EXIT
say "unpacking softflowd and nfdump into .tools"
download() { (cd "$downloads" && apt-get download -qq softflowd nfdump) >/dev/null 2>&1; }
download || { apt_update && download; } || fail "apt-get could not download softflowd and nfdump" "is the network up?"
mkdir -p .tools/exporters .tools/bin
for package in "$downloads"/*.deb; do
    dpkg -x "$package" .tools/exporters
done
for program in "${programs[@]}"; do
    ln -sf "$(cd .tools/exporters && find ./usr -path '*bin/*' -name "$program" -type f | sed 's|^\.|../exporters|')" ".tools/bin/$program"
done
