# boot.sh FOLDER NAME FILES CRATES PROGRAMS: makes a root for a machine and becomes its systemd. FOLDER is the test's, with an empty folder NAME.root; FILES are the
# machine's. The root is this machine's, with a layer above it that is in memory; nothing of this machine changes. Runs in namespaces of its own, as root.
set -e
folder=$1 scratch=$1/$2.root files=$3 crates=$4 programs=$5
mount --make-rprivate /
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/root"
cd "$scratch/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf bpf sys/fs/bpf
mount -t tmpfs tmpfs run
# Devices of its own: what units do there must not reach this machine's.
mount -t tmpfs tmpfs dev
for device in null zero full random urandom; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
# No units but the planned ones: none that sets the kernel's parameters, mounts or starts services.
rm -rf etc/systemd/system/*.wants lib/systemd/system/*.wants
mkdir dev/shm
# The test's folder and the programs stay visible: `weft deploy check` reads the plan there.
for path in "$folder" "$programs"; do
    mkdir -p ".$path"
    mount --bind "$path" ".$path"
done
for program in weft-agent weft-directory; do
    touch "usr/bin/$program"
    mount --bind "$programs/$program" "usr/bin/$program"
done
grep -q '^weft:' etc/passwd || echo 'weft:x:990:990::/var/lib/weft-directory:/usr/sbin/nologin' >>etc/passwd
grep -q '^weft:' etc/group || echo 'weft:x:990:' >>etc/group
rm -rf etc/weft var/lib/weft-directory
cp -a "$files/." .
chmod 755 . etc var var/lib
[ ! -d var/lib/weft-directory ] || chroot . chown -R weft:weft /var/lib/weft-directory
cp "$crates"/agent/systemd/weft-agent.service "$crates"/directory/systemd/weft-directory.service etc/systemd/system
wants=
[ ! -e etc/weft/agent.toml ] || wants="$wants weft-agent.service"
[ ! -e etc/weft/directory.env ] || wants="$wants weft-directory.service"
printf '[Unit]\nWants=%s\n' "$wants" >etc/systemd/system/weft-test.target
export container=weft-test
exec chroot . /lib/systemd/systemd --system --unit=weft-test.target --log-target=console --show-status=1
