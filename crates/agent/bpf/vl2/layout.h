/* What the programs of VL2's data plane and user space agree on: constants, the layout of maps, and the names of counters.
 *
 * Every address is 16 bytes, IPv4 as ::ffff:a.b.c.d, so that one table serves both versions. Addresses, ports and outer headers are in
 * network order; all else is the machine's. User space has these types from the programs' BTF, which keeps what is in a map or the argument of a function.
 */
#ifndef WEFT_VL2_H
#define WEFT_VL2_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Marks of packets that the agent sends: to the stack unchecked; a held packet in or out; of what a program itself answers to the ToR; and of probes that
 * `weft agent trace` has encapsulated. Only CAP_NET_ADMIN sets marks.
 */
#define VL2_MARK_TO_STACK 0x57460001
#define VL2_MARK_RELEASE_IN 0x57460002
#define VL2_MARK_RELEASE_OUT 0x57460003
#define VL2_MARK_TO_TOR 0x57460004
#define VL2_MARK_PROBE 0x57460005

/* The largest frame that is held, and how much of one is captured where the whole is not needed. */
#define VL2_HELD_MAX 9600
#define VL2_EXCERPT 576

#define VL2_OUTER 20
#define VL2_GROUP_MAX 16
#define VL2_PATHS_MAX 65536
#define VL2_RULES_MAX 4096

/* Protocol numbers of an IPv4 and an IPv6 packet within IPv4. */
#define VL2_PROTO_IPV4 4
#define VL2_PROTO_IPV6 41
#define VL2_PROTO_ICMPV6 58

#define VL2_TCP_HEADER_MAX 60
#define VL2_TCP_FIN 1
#define VL2_TCP_SYN 2
#define VL2_TCP_RST 4
#define VL2_TCP_ACK 16

struct vl2_address {
	__be32 word[4];
};

/* A five-tuple; `zero` makes it a key without gaps. */
struct vl2_flow {
	struct vl2_address source;
	struct vl2_address destination;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 zero[3];
};

/* A prefix that no address is in has a mask of zeros and an address that is not zero. */
struct vl2_prefix {
	struct vl2_address address;
	struct vl2_address mask;
};

enum vl2_flags {
	VL2_LOCATOR_HOST = 1, /* this host strips the last header itself */
	VL2_INTERMEDIATES = 2, /* packets bounce off an intermediate switch */
	VL2_PLACEMENTS = 4, /* TCP flows are counted, and a scheduler may choose their intermediate switch */
	VL2_LOCATOR_RULES = 8, /* what arrives for a locator needs a rule, or is an answer */
};

struct vl2_settings {
	struct vl2_prefix aa4;
	struct vl2_prefix aa6;
	__be32 la; /* of a switch: where it relays DHCP; 0: it does not */
	__be32 tor;
	__be32 entropy;
	__be32 entropy_mask;
	__u8 gateway[ETH_ALEN];
	__u8 mac[ETH_ALEN];
	enum vl2_flags flags;
	__u32 service; /* of an address of this host: on whose behalf its link-local addresses ask */
	__u32 mtu;
	__u32 broadcast_per_second;
	__u32 broadcast_burst;
	__u32 samples_per_second;
	__u32 samples_burst;
	__u64 congestion_ns;
	__u64 elephant_bytes;
};

/* A peer as the addresses of one service of this host see it. */
struct vl2_peer_key {
	struct vl2_address address;
	__u32 service;
};

enum vl2_peer_state { VL2_KNOWN, VL2_FORBIDDEN, VL2_UNKNOWN } __attribute__((packed));

struct vl2_peer {
	__be32 locator;
	__u16 group;
	__u16 zero;
	__u8 mac[ETH_ALEN];
	enum vl2_peer_state state;
	__u8 used; /* set by the programs, cleared by user space */
};

/* The anycast addresses of a group of intermediate switches. */
struct vl2_group {
	__u32 count;
	__be32 anycast[VL2_GROUP_MAX];
};

/* An AA that is here: of this host (its service's multicast address), or behind a port of this switch (the port and the host's MAC). */
struct vl2_local {
	__be32 multicast;
	__u32 service;
	__u32 port;
	__u8 mac[ETH_ALEN];
	__u8 zero[2];
};

/* A prefix of locators or outer sources. */
struct vl2_source {
	__u32 length;
	__be32 address;
};

/* What may arrive for a locator: packets of a protocol (to a port, 0: to any), or everything to an address (protocol 0). */
struct vl2_rule {
	struct vl2_address address;
	__be16 port;
	__u8 protocol;
	__u8 zero;
};

struct vl2_flow_state {
	__u32 salt; /* mixed into the hash; the agent's */
	__u32 kernel_hash; /* the socket's: the kernel draws another when the sender times out */
	__u64 reported_ns; /* when the last congestion event was reported */
};

enum vl2_count_flags {
	VL2_ELEPHANT = 1, /* it was reported that it has sent `elephant_bytes` */
	VL2_ENDED = 2, /* it was reported that it has ended */
};

/* What a TCP flow of this host has sent: bytes of IP, without packets that have no room for payload. Times are bpf_ktime_get_ns(). */
struct vl2_count {
	__u64 bytes;
	__u64 first_ns;
	__u64 last_ns;
	enum vl2_count_flags flags;
	__u32 zero;
};

/* The scheduler's choice for a flow. */
struct vl2_placement {
	__be32 intermediate; /* the own locator of an intermediate switch, in place of an anycast address */
	__u32 entropy; /* in place of the flow's hash; 0: the flow's */
};

/* Fragments of one packet; `protocol` keeps two packets of one id apart. */
struct vl2_fragments {
	struct vl2_address source;
	struct vl2_address destination;
	__u32 id;
	__u32 protocol;
};

/* The flow that last used an outer source. */
struct vl2_path {
	__u32 hash;
	struct vl2_flow flow;
};

enum vl2_bucket_use { VL2_BUCKET_BROADCAST, VL2_BUCKET_SAMPLES, VL2_BUCKET_ICMP, VL2_BUCKETS };

enum vl2_strip { VL2_STRIP_INTERMEDIATE = 1, VL2_STRIP_TOR = 2 };

enum vl2_event_kind {
	VL2_EVENT_RESOLVE = 1,
	VL2_EVENT_MISS_OUT,
	VL2_EVENT_MISS_IN,
	VL2_EVENT_CONGESTION,
	VL2_EVENT_ICMP,
	VL2_EVENT_TOO_BIG,
	VL2_EVENT_UNDELIVERABLE,
	VL2_EVENT_ELEPHANT,
	VL2_EVENT_FLOW_END,
	VL2_EVENT_DHCP,
};

/* Followed by `captured` bytes of the frame. */
struct vl2_event {
	enum vl2_event_kind kind;
	__u32 captured;
	__u32 segment; /* bytes of payload a segment; 0: one packet */
	__u32 mtu;
	__be32 outer_source;
	__be32 locator;
	struct vl2_flow flow;
};

/* The names are those of `Counter` in src/vl2/dataplane/counters.rs; a test reads this list. */
enum vl2_counter {
	VL2_UNTOUCHED,
	VL2_PUSHED_TWO,
	VL2_PUSHED_ONE,
	VL2_PUSHED_BYTES,
	VL2_PUSHED_PLACED,
	VL2_STRIPPED_HOST,
	VL2_STRIPPED_INTERMEDIATE,
	VL2_STRIPPED_TOR,
	VL2_DELIVERED,
	VL2_DELIVERED_BYTES,
	VL2_ARP_ANSWERED,
	VL2_NDP_ANSWERED,
	VL2_RESOLVE_ASKED,
	VL2_MISS_OUT,
	VL2_MISS_IN,
	VL2_INJECTED,
	VL2_RELEASED,
	VL2_BROADCAST_SENT,
	VL2_BROADCAST_RECEIVED,
	VL2_ICMP_ERRORS,
	VL2_CONGESTION_EVENTS,
	VL2_OWN_ADDRESS_ASKED,
	VL2_BROADCAST_ECHO,
	VL2_ECN_MARKED,
	VL2_UNDELIVERABLE_SAMPLED,
	VL2_FORGED_SOURCE,
	VL2_OUT_FORBIDDEN,
	VL2_OUT_UNKNOWN,
	VL2_IN_FORBIDDEN,
	VL2_IN_UNKNOWN,
	VL2_NOT_LOCAL,
	VL2_PLAIN,
	VL2_MALFORMED,
	VL2_OUTER_FRAGMENT,
	VL2_TOO_BIG,
	VL2_HOLD_TOO_LARGE,
	VL2_EVENTS_FULL,
	VL2_NO_GATEWAY,
	VL2_HEADER_FAILED,
	VL2_BROADCAST_LIMITED,
	VL2_BROADCAST_NO_GROUP,
	VL2_FOREIGN_RESOLUTION,
	VL2_ENTROPY_TARGET,
	VL2_ECN_DROPPED,
	VL2_RELEASED_LATE,
	VL2_TOR_ANSWERED,
	VL2_FORGED_TUNNEL,
	VL2_FORGED_OUTER,
	VL2_LOCATOR_REFUSED,
	VL2_DHCP_TO_RELAY,
	VL2_DHCP_FROM_RELAY,
	VL2_COUNTERS,
};

#endif
