#!/usr/bin/env bash
# install.sh BUILT PREFIX [DESTDIR]: installs the programs of the folder BUILT below DESTDIR/PREFIX, with their manual pages, completions, systemd units,
# documentation and examples. Nothing else is written, and `install` replaces each file as a whole, so that running daemons keep their programs.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ $# -ge 2 ] || fail "usage: install.sh BUILT PREFIX [DESTDIR]"
built=$1
prefix=$2
to=${3:-}$prefix
[[ $prefix = /* ]] || fail "PREFIX=$prefix is not an absolute path" "make install PREFIX=/usr/local"
for program in weft weft-directory weft-agent weft-scheduler weft-planner; do
    [ -x "$built/$program" ] || fail "$built/$program is not built" "make build"
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for program in weft weft-directory weft-agent weft-scheduler weft-planner; do
    install -D -m 755 "$built/$program" "$to/bin/$program"
    # `weft` has a page for each command; those of the daemons' own programs take the place of its short ones.
    "$built/$program" manual "$scratch"
done
for page in "$scratch"/*.1; do
    gzip -9n "$page"
    install -D -m 644 "$page.gz" "$to/share/man/man1/$(basename "$page").gz"
done

# complete SHELL FILE
complete() {
    "$built/weft" completions "$1" >"$scratch/completion"
    install -D -m 644 "$scratch/completion" "$to/share/$2"
}
complete bash bash-completion/completions/weft
complete zsh zsh/site-functions/_weft
complete fish fish/vendor_completions.d/weft.fish

for unit in crates/{agent,directory,scheduler}/systemd/*.service; do
    sed -e "s|/usr/bin/|$prefix/bin/|g" -e "s|/usr/share/|$prefix/share/|g" "$unit" >"$scratch/unit"
    install -D -m 644 "$scratch/unit" "$to/lib/systemd/system/$(basename "$unit")"
done

for file in packaging/monitoring/*; do
    install -D -m 644 "$file" "$to/share/weft/monitoring/$(basename "$file")"
done

sed -e "s|/usr/bin/weft-agent|$prefix/bin/weft-agent|" packaging/libvirt/qemu >"$scratch/hook"
install -D -m 755 "$scratch/hook" "$to/share/weft/libvirt/qemu"

for page in docs/*.md CHANGELOG.md LICENSE; do
    install -D -m 644 "$page" "$to/share/doc/weft/$(basename "$page")"
done
# The pages stand beside it, and not below docs/, whose own README is a list of them.
sed -e 's#](docs/#](#g' -e 's#href="docs/#href="#g' README.md >"$scratch/readme"
install -D -m 644 "$scratch/readme" "$to/share/doc/weft/README.md"
git ls-files scenarios examples 2>/dev/null | while read -r file; do
    install -D -m 644 "$file" "$to/share/doc/weft/examples/$file"
done
