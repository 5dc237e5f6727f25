#!/usr/bin/env bash
# What the lab and its tests want: iproute2, and FRR, Open vSwitch, dnsmasq and udhcpc, whose daemons the lab starts itself in its namespaces; the system's own services
# are neither started nor enabled. ping and traceroute are for people: the lab has probes of its own.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ "$(uname -s)" = Linux ] || exit 0

missing=()
has ip || missing+=(iproute2)
has ping || missing+=(iputils-ping)
has traceroute || missing+=(traceroute)
[ -x /usr/sbin/dnsmasq ] || missing+=(dnsmasq-base)
has udhcpc || [ -x /usr/sbin/udhcpc ] || missing+=(udhcpc)
# The tests of deployments boot machines with it, in namespaces.
[ -x /lib/systemd/systemd ] || missing+=(systemd)
[ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"

# Installs a package whose service is not to run.
without_service() {
    # Debian starts a service that it installs, but for what this file says. One that is there already has its reasons, and stays.
    local policy=/usr/sbin/policy-rc.d root=()
    if [ ! -e "$policy" ] && [ "$(id -u)" -eq 0 ]; then
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    apt_install "$1"
    [ "$(id -u)" -eq 0 ] || root=(sudo)
    ! has systemctl || "${root[@]}" systemctl disable --now "$2" >/dev/null 2>&1 || true
}

[ -x /usr/lib/frr/zebra ] || without_service frr frr
[ -x /usr/sbin/ovs-vswitchd ] || without_service openvswitch-switch openvswitch-switch
