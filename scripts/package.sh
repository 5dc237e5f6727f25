#!/usr/bin/env bash
# Makes what is shipped, in target/package: `weft` as one static program (and a .tar.gz of it), a Debian package, a Python wheel with the programs, and the
# context of the container image (packaging/Containerfile). SOURCE_DATE_EPOCH is the time of the commit, so that the same commit gives the same archives.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ "$(uname -s)" = Linux ] || fail "packages are made on Linux" "elsewhere: cargo install --path crates/experiment"
out=target/package
machine=$(rustc -vV | sed -n 's/^host: //p')
static=${CARGO_TARGET_DIR:-target}/$machine/release
dynamic=${CARGO_TARGET_DIR:-target}/release
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
rm -rf "$out"
mkdir -p "$out"

# `weft` alone has no library of the system in it, so that it can be static. With --target the flags are those of the program, not of what builds it.
say "building weft, static"
RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target "$machine" --package weft-experiment --bin weft
say "building weft-directory, weft-agent, weft-scheduler and weft-planner"
cargo build --release --locked --package weft-directory --package weft-agent --package weft-scheduler --package weft-planner --bins

built=$out/programs
mkdir -p "$built"
install -m 755 "$static/weft" "$dynamic/weft-directory" "$dynamic/weft-agent" "$dynamic/weft-scheduler" "$dynamic/weft-planner" "$built"
strip "$built"/*

name=weft-$version-$(uname -m)-linux
mkdir "$out/$name"
cp "$built/weft" LICENSE "$out/$name"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$out" -czf "$out/$name.tar.gz" "$name"
rm -r "${out:?}/$name"

say "the Debian package"
has dpkg-deb || fail "there is no dpkg-deb" "it comes with Debian; elsewhere use make install"
root=$out/debian
scripts/install.sh "$built" /usr "$root"
mkdir -p "$root/DEBIAN" "$root/etc/weft"
# The libraries that the daemons are linked with, by the Debian packages that hold them.
libraries=$(ldd "$built/weft-agent" "$built/weft-directory" "$built/weft-scheduler" "$built/weft-planner" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | xargs -n 1 basename)
depends=$(for library in $libraries; do dpkg -S "*/$library" | sed -n 1p | cut -d : -f 1; done | sort -u | paste -sd , | sed 's/,/, /g')
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$(dpkg --print-architecture)/" -e "s/@DEPENDS@/adduser, $depends/" \
    -e "s/@SIZE@/$(du -sk "$root" | cut -f 1)/" packaging/debian/control.in >"$root/DEBIAN/control"
install -m 755 packaging/debian/postinst packaging/debian/prerm "$root/DEBIAN"
dpkg-deb --root-owner-group --build "$root" "$out/weft_${version}_$(dpkg --print-architecture).deb" >&2
rm -r "$root"

say "the Python wheel"
scripts/setup-python.sh
.venv/bin/maturin build --release --locked --quiet --out "$out/wheel" </dev/null
# An installer puts a wheel's scripts beside `python`.
.venv/bin/python -m wheel unpack --dest "$out/wheel" "$out"/wheel/*.whl >&2
scripts=$out/wheel/weft-$version/weft-$version.data/scripts
mkdir -p "$scripts"
install -m 755 "$built"/* "$scripts"
.venv/bin/python -m wheel pack --dest-dir "$out" "$out/wheel/weft-$version" >&2
rm -r "$out/wheel"

say "made:"
ls -l "$out"/*.tar.gz "$out"/*.deb "$out"/*.whl >&2
