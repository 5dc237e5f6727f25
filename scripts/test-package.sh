#!/usr/bin/env bash
# Installs each of what `make package` has made where nothing else of Weft is, and uses it there: the static program in a root that holds nothing but it and three devices, the
# Debian package and the image in a fresh Debian, the wheel in a virtual environment without Rust, `make install` in a folder. As root, on Linux: the roots are
# entered with chroot in namespaces of their own. Fresh Debian roots come from debootstrap and are kept in .tools/debian-root.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ "$(id -u)" -eq 0 ] || fail "the packages are tried in roots of their own, which takes root" "sudo make test-package"
out=$ROOT/target/package
ls "$out"/weft_*.deb "$out"/weft-*.whl "$out"/weft-*.tar.gz >/dev/null 2>&1 || fail "there are no packages in target/package" "make package"
has debootstrap || apt_install debootstrap

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0

# within ROOT COMMAND...: runs a command in a root, without network but loopback, with /proc; what it mounts and starts ends with it.
within() {
    local root=$1
    shift
    mkdir -p "$root/proc"
    unshare --mount --net --pid --fork --kill-child bash -c '
        set -e
        root=$1
        shift
        mount -t proc proc "$root/proc"
        ip link set lo up
        exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp "$@"
    ' - "$root" "$@"
}

# passes WHAT COMMAND...
passes() {
    local what=$1
    shift
    "$@" >"$work/output" 2>&1 || {
        cat "$work/output" >&2
        fail "$what"
    }
    say "ok: $what"
    passed=$((passed + 1))
}

# What is tried of `weft` wherever it is installed: the first commands of the README, in an empty folder.
uses_weft='
    set -e
    cd "$(mktemp -d)"
    weft --version
    weft examples >/dev/null
    weft run @first --set fabric.k=8
    test -s results/*/report.html
    weft check @hedera/figure4
    weft new mine.toml --template @vl2/figure9
'

say "the static program, alone in a root"
root=$work/static
mkdir -p "$root/tmp" "$root/dev"
# Every container has these devices.
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
tar -xzf "$out"/weft-*.tar.gz -C "$root" --strip-components 1
# A root of nothing: not even `env` or a shell.
alone() {
    unshare --mount --net --pid --fork --kill-child chroot "$root" /weft "$@"
}
passes "static: weft --version" alone --version
passes "static: weft run @first" alone run @first --set fabric.k=8 --out /tmp/results
passes "static: the report is written" test -s "$root/tmp/results/report.html"
passes "static: weft check @hedera/figure4" alone check @hedera/figure4

say "the Debian package, in a fresh Debian"
fresh=$ROOT/.tools/debian-root
if [ ! -e "$fresh/etc/debian_version" ]; then
    rm -rf "$fresh"
    say "debootstrap of $(. /etc/os-release && echo "$VERSION_CODENAME"): about a minute"
    debootstrap --variant=minbase --include=iproute2,adduser,ca-certificates "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$fresh" >"$work/debootstrap.log" 2>&1 || {
        tail "$work/debootstrap.log" >&2
        rm -rf "$fresh"
        fail "debootstrap failed" "is the mirror of Debian's packages reachable?"
    }
fi
root=$work/debian
cp -a "$fresh" "$root"
cp "$out"/weft_*.deb "$root/tmp/weft.deb"
# Its dependencies come from the same mirror as the root.
chroot "$root" apt-get install --yes --no-install-recommends /tmp/weft.deb >"$work/apt.log" 2>&1 || {
    cat "$work/apt.log" >&2
    fail "the package does not install"
}
passes "deb: weft works" within "$root" bash -c "$uses_weft"
passes "deb: manual pages, completions, units, examples" within "$root" bash -c '
    set -e
    for file in man/man1/weft.1.gz man/man1/weft-run.1.gz man/man1/weft-agent.1.gz man/man1/weft-scheduler.1.gz man/man1/weft-planner.1.gz man/man1/weft-directory-serve.1.gz \
        bash-completion/completions/weft zsh/site-functions/_weft fish/vendor_completions.d/weft.fish \
        weft/monitoring/weft-alerts.yml weft/libvirt/qemu doc/weft/examples/examples/inventory.toml doc/weft/examples/scenarios/first.toml doc/weft/running-on-hosts.md; do
        test -s "/usr/share/$file" || { echo "/usr/share/$file is missing"; exit 1; }
    done
    grep -q ExecStart=/usr/bin/weft-agent /usr/lib/systemd/system/weft-agent.service
    id weft
'
passes "deb: a directory serves, and ends with a signal to weft" within "$root" bash -c '
    set -e
    cd "$(mktemp -d)"
    weft directory init d --listen 127.0.0.1:5303 >/dev/null
    export WEFT_DIRECTORY=$PWD/d
    weft directory serve >log 2>&1 &
    for i in $(seq 100); do weft directory get 10.0.0.7 >/dev/null 2>&1 && break || [ $? -ne 1 ] || break; sleep 0.1; done
    weft directory put 10.0.0.7 10.0.1.1 --owner 17
    weft directory get 10.0.0.7 | grep 10.0.1.1
    kill %1
    wait %1 || true
    ! pgrep weft-directory 2>/dev/null
    ! weft directory get 10.0.0.7 >/dev/null 2>&1
'
passes "deb: the agent explains a configuration that is missing" within "$root" bash -c '! weft agent --check --config /etc/weft/agent.toml 2>/tmp/e && grep -q agent.toml /tmp/e'
passes "deb: the scheduler explains a configuration that is missing" within "$root" bash -c '! weft scheduler run --check --config /etc/weft/scheduler.toml 2>/tmp/e && grep -q scheduler.toml /tmp/e'
passes "deb: it is removed without a rest" chroot "$root" bash -c 'dpkg --purge weft && ! test -e /usr/bin/weft && ! test -e /usr/share/doc/weft'

say "the wheel, in an environment without Rust"
python=${PYTHON:-python3}
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$out"/weft-*.whl
passes "wheel: the programs" env -i PATH="$work/venv/bin:/usr/bin:/bin" HOME="$work" bash -c "$uses_weft weft directory --version; weft agent --version; weft scheduler --version"
passes "wheel: import weft" env -i PATH="$work/venv/bin:/usr/bin:/bin" HOME="$work" "$work/venv/bin/python" -c '
import weft
result = weft.run("@first", set={"fabric.k": 8, "control.scheduler": "none"})
assert len(result.runs[0].flows.table if hasattr(result.runs[0].flows, "table") else result.runs[0].flows) == 128
'

say "make install, in a folder"
passes "install" scripts/install.sh "$out/programs" /usr/local "$work/installed"
passes "install: the units name the prefix" grep -q ExecStart=/usr/local/bin/weft-agent "$work/installed/usr/local/lib/systemd/system/weft-agent.service"
passes "install: weft works" env -i PATH="$work/installed/usr/local/bin:/usr/bin:/bin" HOME="$work" bash -c "$uses_weft"

say "the image"
has buildah || apt_install buildah
# No registry is asked: the base is the fresh Debian above. The storage is this test's own.
images=(buildah --root "$work/images" --runroot "$work/run" --storage-driver vfs)
image() {
    tar -C "$fresh" -cf "$work/base.tar" .
    local base
    base=$("${images[@]}" from scratch)
    "${images[@]}" add -q "$base" "$work/base.tar" /
    "${images[@]}" commit -q "$base" localhost/debian:fresh
    "${images[@]}" bud --isolation chroot --pull-never --build-arg BASE=localhost/debian:fresh --file packaging/Containerfile --tag weft "$out"
}
passes "image: it builds" image
container=$("${images[@]}" from --pull-never localhost/weft)
passes "image: weft run @first" "${images[@]}" run --isolation chroot "$container" -- /usr/bin/weft run @first --set fabric.k=8

printf '%d passed, 0 failed\n' "$passed"
