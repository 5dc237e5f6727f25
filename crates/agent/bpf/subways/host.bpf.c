/* Subways' programs on a host with several NICs: which NIC a TCP flow leaves by, and by which it reaches its peer.
 *
 *   subways_out, on the egress of a dummy device to which the routes to peers lead:
 *     host -> peer  becomes  NIC i -> NIC j of the peer, and goes out at NIC i
 *   subways_in, on the ingress of every NIC:
 *     NIC j of the peer -> NIC i  becomes  peer -> host
 *     IP in IP between hosts  is forwarded on a detour (detour.h), if this host takes part
 *
 * The pair (i, j) of a flow is drawn at its first packet, from the peer's slots. It stays until the agent moves the flow, in a pause; until its NIC is down; or until
 * a packet is sent again after nothing was heard for a while: then nobody can be overtaken, and another pair may work. An answer that does not get through shows by
 * old packets that come again.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "layout.h"

#define COUNTERS SUBWAYS_COUNTERS
#define COUNTER subways_counter
#include "../common.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct subways_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __be32);
	__type(value, struct subways_peer);
} peers SEC(".maps");

/* The first address of the host that has a NIC with this one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, __be32);
	__type(value, __be32);
} nics SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct subways_flow);
	__type(value, struct subways_state);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct subways_flow);
	__type(value, struct subways_move);
} moves SEC(".maps");

#include "detour.h"

struct packet {
	struct iphdr ip;
	struct tcphdr tcp;
	__u32 transport; /* offset of the TCP header */
	__u32 payload; /* bytes; of all segments together */
	__u32 end; /* sequence number beyond it */
};

#define IP_OFFSET ETH_HLEN

/* Whether it is TCP over IPv4 that can be read; else `reason` says what it is, or is left alone. */
always_inline int parse(struct __sk_buff *skb, struct packet *p, int *reason)
{
	__u32 headers;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return 0;
	if (bpf_skb_load_bytes(skb, IP_OFFSET, &p->ip, sizeof(p->ip)))
		return 0;
	if (p->ip.version != 4 || p->ip.protocol != IPPROTO_TCP)
		return 0;
	*reason = SUBWAYS_MALFORMED;
	if (p->ip.ihl < 5)
		return 0;
	if (p->ip.frag_off & bpf_htons(0x3fff)) {
		*reason = SUBWAYS_FRAGMENT;
		return 0;
	}
	p->transport = IP_OFFSET + p->ip.ihl * 4;
	if (bpf_skb_load_bytes(skb, p->transport, &p->tcp, sizeof(p->tcp)))
		return 0;
	headers = p->ip.ihl * 4 + p->tcp.doff * 4;
	/* A packet of several segments may be larger than its header can say. */
	p->payload = skb->gso_size ? skb->len - IP_OFFSET : bpf_ntohs(p->ip.tot_len);
	if (p->tcp.doff < 5 || p->payload < headers || IP_OFFSET + p->payload > skb->len)
		return 0;
	p->payload -= headers;
	p->end = bpf_ntohl(p->tcp.seq) + p->payload + p->tcp.syn + p->tcp.fin;
	return 1;
}

always_inline __u32 mix(__u32 hash)
{
	hash ^= hash >> 16;
	hash *= 0x7feb352d;
	hash ^= hash >> 15;
	hash *= 0x846ca68b;
	return hash ^ hash >> 16;
}

always_inline __u32 hash_of(const struct subways_settings *s, const struct subways_flow *flow)
{
	return mix(s->seed ^ mix(flow->peer ^ mix((__u32)flow->sport << 16 | flow->dport)));
}

/* The next pair of a flow: of several draws the first that shares no NIC with the one it has, else the first that is another. */
always_inline __u8 draw(const struct subways_settings *s, const struct subways_peer *peer, struct subways_state *state, __u32 hash,
			int is_first)
{
	__u32 old, other, pair;

	old = other = state->pair;
	for (int i = 0; i < SUBWAYS_DRAWS; i++) {
		pair = peer->slot[mix(hash + state->draws++) % SUBWAYS_SLOTS];
		if (!(s->up >> (pair >> 4 & 15) & 1))
			continue;
		if (is_first || ((pair ^ old) & 0xf0 && (pair ^ old) & 0x0f))
			return pair;
		if (other == old)
			other = pair;
	}
	return other;
}

/* Other addresses, in the checksums too. */
always_inline int rewrite(struct __sk_buff *skb, const struct packet *p, __be32 source, __be32 destination)
{
	__u32 sum = p->transport + offsetof(struct tcphdr, check), ip_sum = IP_OFFSET + offsetof(struct iphdr, check);
	__be32 old_source = p->ip.saddr, old_destination = p->ip.daddr;

	if (source != old_source) {
		if (bpf_l4_csum_replace(skb, sum, old_source, source, BPF_F_PSEUDO_HDR | 4) ||
		    bpf_l3_csum_replace(skb, ip_sum, old_source, source, 4) ||
		    bpf_skb_store_bytes(skb, IP_OFFSET + offsetof(struct iphdr, saddr), &source, 4, 0))
			return 0;
	}
	if (destination != old_destination) {
		if (bpf_l4_csum_replace(skb, sum, old_destination, destination, BPF_F_PSEUDO_HDR | 4) ||
		    bpf_l3_csum_replace(skb, ip_sum, old_destination, destination, 4) ||
		    bpf_skb_store_bytes(skb, IP_OFFSET + offsetof(struct iphdr, daddr), &destination, 4, 0))
			return 0;
	}
	return 1;
}

/* Where the flow goes from this packet on. */
always_inline void choose(const struct subways_settings *s, const struct subways_peer *peer, const struct subways_flow *flow,
			  struct subways_state *state, const struct packet *p, __u64 now)
{
	int is_again = p->end != bpf_ntohl(p->tcp.seq) && (__s32)(p->end - state->next) <= 0;
	struct subways_move *move = bpf_map_lookup_elem(&moves, flow);

	if (move && since(now, state->last_ns) >= move->gap_ns) {
		if (state->pair != move->pair) {
			state->pair = move->pair;
			add(SUBWAYS_MOVED, 1);
		}
		bpf_map_delete_elem(&moves, flow);
	}
	if (!(s->up >> (state->pair >> 4 & 15) & 1)) {
		state->pair = draw(s, peer, state, hash_of(s, flow), 0);
		add(SUBWAYS_NIC_DOWN, 1);
	} else if (is_again && since(now, state->heard_ns) > s->stall_ns && since(now, state->last_ns) > s->stall_ns) {
		/* The next time it stays: if answers are lost, the peer sees by that packet that they are, and takes other NICs itself. */
		if (!(state->stalls++ & 1)) {
			state->pair = draw(s, peer, state, hash_of(s, flow), 0);
			add(SUBWAYS_REDRAWN, 1);
		}
	}
	if (!is_again)
		state->next = p->end;
}

/* A pair of NICs without a detour at either end; the first if there is none. */
slow_path __u8 direct(const struct subways_settings *s, const struct subways_peer *peer, __u32 hash)
{
	for (__u32 i = 0; i < SUBWAYS_SLOTS; i++) {
		__u8 pair = peer->slot[(hash + i) % SUBWAYS_SLOTS];

		if (!(pair & (SUBWAYS_FIRST_DETOUR << 4 | SUBWAYS_FIRST_DETOUR)) && s->up >> (pair >> 4 & 7) & 1)
			return pair;
	}
	return 0;
}

/* The NICs and detours of a pair; false if one of its detours is gone. */
always_inline int resolve(const struct subways_settings *s, const struct subways_flow *flow, __u8 pair, __u64 now, struct route *r)
{
	r->leaving = r->arriving = NULL;
	r->hops = 0;
	r->out = pair >> 4 & 15;
	r->into = pair & 15;
	if (r->out >= SUBWAYS_FIRST_DETOUR) {
		r->leaving = detour_of(s->address[0], r->out, now);
		if (!r->leaving)
			return 0;
		r->out = r->leaving->nic;
		r->hops += r->leaving->hops;
	}
	if (r->into >= SUBWAYS_FIRST_DETOUR) {
		r->arriving = detour_of(flow->peer, r->into, now);
		if (!r->arriving)
			return 0;
		r->into = r->arriving->nic;
		r->hops += r->arriving->hops;
	}
	return 1;
}

/* Sends the packet of a flow over its NICs and detours. */
always_inline int dispatch(struct __sk_buff *skb, const struct subways_settings *s, const struct subways_peer *peer,
			   const struct subways_flow *flow, struct subways_state *state, const struct packet *p, __u64 now)
{
	struct route r;
	__be32 source;

	if (!resolve(s, flow, state->pair, now, &r)) {
		state->pair = direct(s, peer, hash_of(s, flow));
		add(SUBWAYS_OFF_DETOUR, 1);
		if (!resolve(s, flow, state->pair, now, &r))
			return drop(SUBWAYS_FAILED);
	}
	source = s->address[r.out & 7];
	if (!rewrite(skb, p, source, peer->address[r.into & 7]))
		return drop(SUBWAYS_FAILED);
	if (r.hops) {
		if (!push(skb, &r, source, p->ip.tos, skb->len - IP_OFFSET))
			return drop(SUBWAYS_FAILED);
		add(SUBWAYS_DETOURED, 1);
	}
	add(SUBWAYS_SENT, 1);
	return bpf_redirect_neigh(s->ifindex[r.out & 7], NULL, 0, 0);
}

SEC("tc")
int subways_out(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct subways_settings *s = bpf_map_lookup_elem(&settings, &zero);
	struct subways_flow flow = {};
	struct subways_state *state;
	const struct subways_peer *peer;
	int reason = SUBWAYS_UNKNOWN_PEER;
	__u64 now = bpf_ktime_get_ns();
	struct packet p;

	if (!s)
		return TC_ACT_SHOT;
	if (!parse(skb, &p, &reason))
		return drop(reason);
	if (p.ip.saddr != s->address[0])
		return drop(SUBWAYS_FOREIGN_SOURCE);
	peer = bpf_map_lookup_elem(&peers, &p.ip.daddr);
	if (!peer)
		return drop(SUBWAYS_UNKNOWN_PEER);
	flow.peer = p.ip.daddr;
	flow.sport = p.tcp.source;
	flow.dport = p.tcp.dest;
	state = bpf_map_lookup_elem(&flows, &flow);
	if (!state || (p.tcp.syn && state->flags & SUBWAYS_OVER)) {
		struct subways_state first = { .heard_ns = now, .news_ns = now, .next = p.end };

		first.pair = draw(s, peer, &first, hash_of(s, &flow), 1);
		bpf_map_update_elem(&flows, &flow, &first, BPF_ANY);
		add(SUBWAYS_BEGUN, 1);
		state = bpf_map_lookup_elem(&flows, &flow);
		if (!state)
			return drop(SUBWAYS_FAILED);
	} else {
		choose(s, peer, &flow, state, &p, now);
	}
	state->last_ns = now;
	state->bytes += p.payload;
	if (p.tcp.fin || p.tcp.rst)
		state->flags |= SUBWAYS_OVER;
	return dispatch(skb, s, peer, &flow, state, &p, now);
}

/* What a packet from the peer says of the flow's own packets. */
always_inline void hear(const struct subways_settings *s, const struct subways_flow *flow, const struct packet *p)
{
	struct subways_state *state = bpf_map_lookup_elem(&flows, flow);
	const struct subways_peer *peer;
	__u64 now = bpf_ktime_get_ns();

	if (!state)
		return;
	state->heard_ns = now;
	state->stalls = 0;
	if (p->tcp.rst)
		state->flags |= SUBWAYS_OVER;
	if (p->end == bpf_ntohl(p->tcp.seq))
		return;
	if (!state->expected || (__s32)(p->end - state->expected) > 0) {
		state->expected = p->end;
		state->news_ns = now;
	} else if (since(now, state->news_ns) > s->stall_ns) {
		peer = bpf_map_lookup_elem(&peers, &flow->peer);
		if (!peer)
			return;
		state->pair = draw(s, peer, state, hash_of(s, flow), 0);
		state->news_ns = now;
		add(SUBWAYS_REDRAWN, 1);
	}
}

SEC("tc")
int subways_in(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct subways_settings *s = bpf_map_lookup_elem(&settings, &zero);
	struct subways_flow flow = {};
	const __be32 *peer;
	int reason = -1;
	__u64 hit = 0;
	__u8 protocol = 0;
	struct packet p;

	if (!s)
		return TC_ACT_OK;
	if (s->up & SUBWAYS_DETOURS && skb->protocol == bpf_htons(ETH_P_IP)) {
		bpf_skb_load_bytes(skb, IP_OFFSET + offsetof(struct iphdr, protocol), &protocol, sizeof(protocol));
		if (protocol == IPPROTO_IPIP)
			return forward(skb, s);
	}
	if (!parse(skb, &p, &reason))
		return TC_ACT_OK;
	/* Without a branch, of which the verifier would follow each combination: 0 - 1 alone has the highest bit. */
	for (int i = 0; i < SUBWAYS_NICS; i++)
		hit |= (__u64)(s->address[i] ^ p.ip.daddr) - 1;
	peer = bpf_map_lookup_elem(&nics, &p.ip.saddr);
	if (!(hit >> 63) || !peer)
		return TC_ACT_OK;
	flow.peer = *peer;
	flow.sport = p.tcp.dest;
	flow.dport = p.tcp.source;
	hear(s, &flow, &p);
	if (!rewrite(skb, &p, flow.peer, s->address[0]))
		return drop(SUBWAYS_FAILED);
	add(SUBWAYS_RECEIVED, 1);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
