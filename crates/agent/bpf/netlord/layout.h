/* What the programs of NetLord's data plane and user space agree on: constants, the layout of maps, and the names of counters.
 *
 * MAC addresses, IP addresses, tenants (the low 24 bits) and MAC spaces are in network order; all else is the machine's.
 * User space has these types from the programs' BTF, which keeps what is in a map or the argument of a function. Sections are those of the NetLord paper.
 */
#ifndef WEFT_NETLORD_H
#define WEFT_NETLORD_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Ethernet in IPv4, without a shim. */
#define NETLORD_PROTOCOL 143
#define NETLORD_TTL 64
/* The encapsulation: an Ethernet and an IPv4 header before the inner frame. The tag is the kernel's to write. */
#define NETLORD_HEADERS 34
/* Of an IPv4 header. */
#define NETLORD_IP 20
#define NETLORD_GROUP 239
#define NETLORD_LAST_PORT 126
#define NETLORD_LAST_SPACE 0x7effffff
#define NETLORD_PROVIDER 1
#define NETLORD_PUBLIC 2

#define NETLORD_TYPE_HERE 0x88b5
#define NETLORD_TYPE_NOT_HERE 0x88b6
#define NETLORD_TYPE_LLDP 0x88cc
/* The port of DHCP clients. */
#define NETLORD_DHCP_CLIENT 68

/* Room for a frame that is handed to the agent: a common one, and a packet of many segments. */
#define NETLORD_EVENT_SMALL 2048
#define NETLORD_EVENT_MAX 65535

/* Bytes of the ring buffer of events. */
#define NETLORD_RING (1 << 22)

#define NETLORD_PATHS_MAX 16
/* Ports of a switch in one VLAN. */
#define NETLORD_VLAN_PORTS 128

/* ---- the host's tables ---- */

/* An interface to the fabric and its place, by its index. `port` 0: it has none. */
struct netlord_uplink {
	__u32 mtu;
	__u8 mac[ETH_ALEN];
	__u8 switch_mac[ETH_ALEN];
	__u8 port;
	__u8 zero[3];
};

/* A VM's interface, by its index. */
struct netlord_vif {
	__be32 tenant;
	__be32 space;
	__u32 uplink; /* the index of its interface to the fabric; 0: none */
	__u8 mac[ETH_ALEN];
	__u8 zero[2];
};

/* (tenant, MAC space, MAC address): whom a frame is for. */
struct netlord_name {
	__be32 tenant;
	__be32 space;
	__u8 mac[ETH_ALEN];
	__u8 zero[2];
};

/* Where a remote VIF is. */
struct netlord_place {
	__u8 switch_mac[ETH_ALEN];
	__u8 port;
	__u8 zero;
};

/* An edge switch, as an interface to the fabric reaches it. */
struct netlord_reached {
	__u32 uplink;
	__u8 switch_mac[ETH_ALEN];
	__u8 zero[2];
};

struct netlord_choice {
	__u64 hash;
	__u16 vlan;
	__u16 zero[3];
};

/* The VLANs to an edge switch that work, with the hash of each. */
struct netlord_paths {
	__u32 count;
	__u32 zero;
	struct netlord_choice path[NETLORD_PATHS_MAX];
};

/* A (VLAN, edge switch) pair, from an interface to the fabric. */
struct netlord_path {
	__u32 uplink;
	__u8 switch_mac[ETH_ALEN];
	__u16 vlan;
};

/* When it was last reported that a frame was sent over a path, and that one came over it. */
struct netlord_reported {
	__u64 sent_ns;
	__u64 heard_ns;
};

/* An address of a VIF in the public space. */
struct netlord_owned {
	__u32 ifindex;
	__u8 address[16]; /* IPv4 as ::ffff:a.b.c.d */
};

/* What a virtual router did with a packet like this. */
struct netlord_route_key {
	__u32 ifindex;
	__u8 router[ETH_ALEN];
	__u8 protocol;
	__u8 zero;
	__u8 source[16];
	__u8 destination[16];
	__be16 port;
	__u16 zero2;
};

struct netlord_route {
	__u64 until_ns;
	__be32 space;
	__u8 mac[ETH_ALEN];
	__u8 source[ETH_ALEN];
};

/* A tenant's MAC space: whom a group's frame is for. */
struct netlord_space {
	__be32 tenant;
	__be32 space;
};

/* What a sender may hand to the agent, and has handed to it: a VIF, or what comes from the fabric for a MAC space. */
struct netlord_budget {
	struct bpf_spin_lock lock;
	__u32 per_second; /* frames */
	__u32 burst;
	__u32 zero;
	__u64 tokens; /* billionths of a frame */
	__u64 filled_ns;
	__u64 handed;
	__u64 refused;
};

struct netlord_host_settings {
	__u64 report_ns; /* between two reports of one path */
	__u32 misses_per_second; /* misdelivered frames that are reported */
	__u32 misses_burst;
};

enum netlord_event_kind {
	NETLORD_EVENT_VIF = 1, /* a frame of a VM that the maps cannot decide about */
	NETLORD_EVENT_UPLINK, /* a frame from the fabric, likewise */
	NETLORD_EVENT_SENT, /* a frame was sent over a path */
	NETLORD_EVENT_HEARD, /* a frame has come over it */
	NETLORD_EVENT_ARP, /* a switch: no MAC address is known for the server at a port, or a server answers */
	NETLORD_EVENT_CLAIMS, /* a switch: what another edge switch reports of tenants with a rate */
};

/* Followed by `captured` bytes of the frame, without the tag. */
struct netlord_event {
	enum netlord_event_kind kind;
	__u32 captured;
	__u32 ifindex;
	__u32 segment; /* bytes of payload a segment; 0: one frame */
	__u16 tag; /* of a frame: its tag's two bytes */
	__u8 tagged;
	__u8 port; /* of a path */
	struct netlord_path path;
};

/* ---- the switch's tables ---- */

/* A port, by its interface's index. */
struct netlord_port {
	__u32 native; /* the VLAN of what comes untagged; 0: none */
	__u32 is_server; /* a server's: it reports nothing of limits, and hears nothing of them */
};

/* The ports of a VLAN. All are tagged, but for `native` ones. */
struct netlord_vlan {
	__u32 count;
	__u32 ifindex[NETLORD_VLAN_PORTS];
};

struct netlord_fib_key {
	__u8 mac[ETH_ALEN];
	__u16 vlan;
};

struct netlord_fib_entry {
	__u64 seen_ns;
	__u32 ifindex;
	__u32 zero;
};

/* A static route: p.0.0.0/8 to port p (section 3.6). */
struct netlord_prefix {
	__u32 length;
	__be32 address;
};

struct netlord_hop {
	__u32 ifindex;
	__u8 mac[ETH_ALEN]; /* zeros: not known yet */
	__u8 zero[2];
};

enum netlord_limit_kind { NETLORD_RATE, NETLORD_DENY };

/* What the fabric does with a tenant's packets (sections 4.1 and 6). */
struct netlord_limit {
	struct bpf_spin_lock lock;
	enum netlord_limit_kind kind;
	__u64 bytes_per_second; /* 0: no limit; a share takes its place */
	__u64 burst_bytes;
	__u64 tokens; /* thousandths of a byte */
	__u64 filled_ns;
};

struct netlord_tenant {
	__u64 packets;
	__u64 bytes;
	__u64 denied;
	__u64 limited;
};

struct netlord_switch_settings {
	__u8 mac[ETH_ALEN]; /* zeros: no L3 hop */
	__u16 zero;
	__u64 ageing_ns;
	__u32 learn_per_second; /* 0: no limit */
	__u32 learn_burst;
};

/* The names are those of `HostCounter` in src/netlord/dataplane/counters.rs; a test reads this list. */
enum netlord_host_counter {
	NETLORD_SENT,
	NETLORD_SENT_BYTES,
	NETLORD_SENT_SAME_SWITCH,
	NETLORD_LOCAL,
	NETLORD_ROUTED,
	NETLORD_RECEIVED,
	NETLORD_RECEIVED_BYTES,
	NETLORD_TO_AGENT,
	NETLORD_CONTROL_IN,
	NETLORD_PLAIN,
	NETLORD_SPOOFED_MAC,
	NETLORD_CONTROL,
	NETLORD_TOO_LONG,
	NETLORD_NO_UPLINK,
	NETLORD_NO_PATH,
	NETLORD_HEADER_FAILED,
	NETLORD_EVENTS_FULL,
	NETLORD_BAD_ENCAPSULATION,
	NETLORD_NOT_MINE,
	NETLORD_FORGED,
	NETLORD_MISDELIVERED_LIMIT,
	NETLORD_AGENT_LIMIT,
	NETLORD_SPACE_LIMIT,
	NETLORD_OTHER_SPACES,
	NETLORD_HOST_COUNTERS,
};

/* The names are those of `SwitchCounter` in src/netlord/dataplane/counters.rs; a test reads this list. */
enum netlord_switch_counter {
	NETLORD_FORWARDED,
	NETLORD_FLOODED,
	NETLORD_FLOODED_COPIES,
	NETLORD_LAST_HOP,
	NETLORD_LEARNED,
	NETLORD_MOVED,
	NETLORD_EVICTED,
	NETLORD_AGED,
	NETLORD_LEARN_LIMITED,
	NETLORD_MISSES,
	NETLORD_ARP,
	NETLORD_CLAIMS,
	NETLORD_NO_VLAN,
	NETLORD_NOT_MEMBER,
	NETLORD_SAME_PORT,
	NETLORD_RESERVED,
	NETLORD_BAD_SOURCE,
	NETLORD_FORGED_CLAIMS,
	NETLORD_BAD_HEADER,
	NETLORD_TTL_EXPIRED,
	NETLORD_NO_ROUTE,
	NETLORD_NO_NEIGHBOUR,
	NETLORD_DENIED,
	NETLORD_LIMITED,
	NETLORD_FAILED,
	NETLORD_SWITCH_COUNTERS,
};

#endif
