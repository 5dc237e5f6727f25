/* Tables of Subways' programs on a host with several NICs, shared with src/subways/dataplane. IPv4 addresses and ports in network order.
 */
#ifndef WEFT_SUBWAYS_LAYOUT_H
#define WEFT_SUBWAYS_LAYOUT_H

#include <linux/types.h>

#define SUBWAYS_NICS 8
#define SUBWAYS_SLOTS 64
#define SUBWAYS_DRAWS 16

struct subways_settings {
	__be32 address[SUBWAYS_NICS]; /* of NICs; the first is the host's */
	__u32 ifindex[SUBWAYS_NICS];
	__u32 up; /* bit i: NIC i */
	__u32 seed;
	__u64 stall_ns; /* a flow whose packets are sent again, with nothing heard for so long, takes other NICs */
};

/* A host, by its first address. */
struct subways_peer {
	__be32 address[SUBWAYS_NICS];
	__u8 slot[SUBWAYS_SLOTS]; /* leaving NIC << 4 | arriving NIC */
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
	__u8 pair; /* leaving NIC << 4 | arriving NIC */
	__u8 stalls; /* packets sent again since one was received */
	__u8 zero[6];
};

/* What a flow takes as soon as it has paused. */
struct subways_move {
	__u64 gap_ns;
	__u8 pair;
	__u8 zero[7];
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
	SUBWAYS_COUNTERS,
};

#endif
