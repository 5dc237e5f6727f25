/* Tables of Subways' programs on a host with several NICs, shared with src/subways/dataplane. IPv4 addresses and ports in network order.
 */
#ifndef WEFT_SUBWAYS_LAYOUT_H
#define WEFT_SUBWAYS_LAYOUT_H

#include <linux/types.h>

#define SUBWAYS_NICS 8
#define SUBWAYS_SLOTS 64
#define SUBWAYS_DRAWS 16
/* Servers that forward at one end of a flow, at most. */
#define SUBWAYS_HOPS 2
/* Of the two numbers of a pair, those from here on are detours of the host (section 6) and not its NICs. */
#define SUBWAYS_FIRST_DETOUR 8
/* In `up` of the settings: this host takes part in detours. Other bits: NIC i, or, from SUBWAYS_FIRST_DETOUR on, leaving detour i may be used. */
#define SUBWAYS_DETOURS (1u << 31)

struct subways_settings {
	__be32 address[SUBWAYS_NICS]; /* of NICs; the first is the host's */
	__u32 ifindex[SUBWAYS_NICS];
	__u32 up; /* bit i: NIC i; and SUBWAYS_DETOURS */
	__u32 seed;
	__u64 stall_ns; /* a flow whose packets are sent again, with nothing heard for so long, takes other NICs */
};

/* A host, by its first address. */
struct subways_peer {
	__be32 address[SUBWAYS_NICS];
	__u8 slot[SUBWAYS_SLOTS]; /* leaving NIC or detour << 4 | arriving NIC or detour */
};

/* TCP between this host and a peer. */
struct subways_flow {
	__be32 peer;
	__be16 sport; /* here */
	__be16 dport; /* there */
};

enum subways_flow_flags {
	SUBWAYS_OVER = 1, /* FIN or RST */
};

struct subways_state {
	__u64 bytes; /* payload sent */
	__u64 last_ns; /* when the last packet was sent */
	__u64 heard_ns; /* when one was received */
	__u64 news_ns; /* when one with new bytes was received */
	__u32 next; /* beyond the last byte sent */
	__u32 expected; /* beyond the last byte received */
	__u32 draws;
	enum subways_flow_flags flags;
	__u8 pair; /* leaving NIC or detour << 4 | arriving NIC or detour */
	__u8 stalls; /* packets sent again since one was received */
	__u8 zero[6];
};

/* What a flow takes as soon as it has paused. */
struct subways_move {
	__u64 gap_ns;
	__u8 pair;
	__u8 zero[7];
};

/* A detour: of this host's flows that leave, or of flows that arrive at a peer. */
struct subways_detour_key {
	__be32 host; /* whose, by its first address */
	__u32 number;
};

struct subways_detour {
	__u64 until_ns; /* flows do not take it later */
	__be32 via[SUBWAYS_HOPS]; /* the NICs at which servers receive it, from the flow's source on */
	__u8 out[SUBWAYS_HOPS]; /* the NICs by which they send it on */
	__u8 hops;
	__u8 nic; /* of the host */
	__u32 zero;
};

enum subways_direction {
	SUBWAYS_OUT, /* a detour of the host that sends */
	SUBWAYS_IN, /* of the host, or the next server, that it is forwarded to */
};

/* What this host forwards. */
struct subways_permit_key {
	__be32 host; /* whose detour, by its first address */
	__u8 into; /* the NIC at which it is received */
	__u8 out;
	__u8 direction;
	__u8 zero;
};

struct subways_permit {
	__u64 until_ns;
	__u64 burst_ns; /* packets may be so far ahead of the rate */
	__u32 kbps;
	__u32 zero;
};

/* What a permit has let through. */
struct subways_meter {
	struct bpf_spin_lock lock;
	__u32 zero;
	__u64 free_ns; /* when all that was let through would have been sent at the permit's rate */
};

enum subways_counter {
	SUBWAYS_SENT,
	SUBWAYS_RECEIVED,
	SUBWAYS_BEGUN,
	SUBWAYS_MOVED,
	SUBWAYS_REDRAWN,
	SUBWAYS_NIC_DOWN,
	SUBWAYS_MALFORMED,
	SUBWAYS_FRAGMENT,
	SUBWAYS_FOREIGN_SOURCE,
	SUBWAYS_UNKNOWN_PEER,
	SUBWAYS_FAILED,
	SUBWAYS_DETOURED,
	SUBWAYS_OFF_DETOUR,
	SUBWAYS_FORWARDED,
	SUBWAYS_FORWARDED_BYTES,
	SUBWAYS_REFUSED,
	SUBWAYS_OVER_RATE,
	SUBWAYS_COUNTERS,
};

#endif
