#!/usr/bin/env bash
# What the test of the packet world's captures wants: tshark, of Wireshark, which reads them as a user's would.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

has tshark || apt_install tshark
