/* Detours (Subways section 6): a packet passes servers of neighbouring racks, each of which receives it at one NIC and sends it on by another.
 *
 *   sender     | IP: to the first server | ... | IP: to the last server | the packet as a direct one, NIC to NIC |
 *   server     strips the outer header and sends what is left by the NIC that the header's identification names; the next destination stands there
 *
 * All headers have the address of the NIC that the sender uses. A server forwards what its agent has a permit for, up to the permit's rate.
 */
#ifndef SUBWAYS_DETOUR_H
#define SUBWAYS_DETOUR_H

#include "../outer.h"

#define OUTER ((__u32)sizeof(struct iphdr))
/* Servers on the whole path of a flow. */
#define HOPS_MAX (2 * SUBWAYS_HOPS)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct subways_detour_key);
	__type(value, struct subways_detour);
} detours SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct subways_permit_key);
	__type(value, struct subways_permit);
} permits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct subways_permit_key);
	__type(value, struct subways_meter);
} meters SEC(".maps");

/* The next hop for other subnets, by NIC; 0: every address is on the link. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SUBWAYS_NICS);
	__type(key, __u32);
	__type(value, __be32);
} gateways SEC(".maps");

struct subways_headers {
	struct iphdr ip[HOPS_MAX];
};

/* The hooks run with soft interrupts off, so one for each CPU will do. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct subways_headers);
} headers SEC(".maps");

/* A detour that may be used now. */
always_inline const struct subways_detour *detour_of(__be32 host, __u32 number, __u64 now)
{
	struct subways_detour_key key = { .host = host, .number = number };
	const struct subways_detour *detour = bpf_map_lookup_elem(&detours, &key);

	return detour && detour->until_ns > now ? detour : NULL;
}

/* Where a packet goes, when all is known. */
struct route {
	const struct subways_detour *leaving, *arriving; /* NULL: a NIC alone */
	__u32 out, into; /* NICs */
	__u32 hops; /* servers at both ends */
};

/* Puts the headers of both detours before the packet. */
slow_path int push(struct __sk_buff *skb, const struct route *r, __be32 source, __u8 tos, __u32 length)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;
	__u32 zero = 0, count = r->hops, at = 0, size;
	struct subways_headers *h = bpf_map_lookup_elem(&headers, &zero);

	if (!h || count < 1 || count > HOPS_MAX)
		return 0;
	for (__u32 end = 0; end < 2; end++) {
		const struct subways_detour *detour = end ? r->arriving : r->leaving;

		for (__u32 i = 0; i < SUBWAYS_HOPS; i++) {
			if (!detour || i >= detour->hops || at >= HOPS_MAX)
				break;
			outer_header(&h->ip[at], tos, length + (count - at) * OUTER, detour->out[i], IPPROTO_IPIP, source, detour->via[i]);
			at++;
		}
	}
	size = count * OUTER;
	return !bpf_skb_adjust_room(skb, size, BPF_ADJ_ROOM_MAC, flags) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN, h, size, BPF_F_INVALIDATE_HASH);
}

/* Whether a permit's rate leaves room for the packet. */
slow_path int has_room(const struct subways_permit_key *key, const struct subways_permit *permit, __u32 length, __u64 now)
{
	struct subways_meter first = {}, *meter = bpf_map_lookup_elem(&meters, key);
	int passes = 0;
	__u64 cost;

	if (!permit->kbps)
		return 0;
	if (!meter) {
		bpf_map_update_elem(&meters, key, &first, BPF_NOEXIST);
		meter = bpf_map_lookup_elem(&meters, key);
		if (!meter)
			return 0;
	}
	cost = (__u64)length * 8000000 / permit->kbps;
	bpf_spin_lock(&meter->lock);
	if (meter->free_ns < now)
		meter->free_ns = now;
	if (meter->free_ns - now <= permit->burst_ns) {
		meter->free_ns += cost;
		passes = 1;
	}
	bpf_spin_unlock(&meter->lock);
	return passes;
}

/* The inner header takes over congestion that the outer one met (RFC 6040, section 4.2). False: the packet must be dropped. */
always_inline int experience(struct __sk_buff *skb, __u8 outer_tos, __u8 tos)
{
	__be16 old, new;

	if ((outer_tos & 3) != 3 || (tos & 3) == 3)
		return 1;
	if (!(tos & 3) || bpf_skb_load_bytes(skb, ETH_HLEN, &old, sizeof(old)))
		return 0;
	new = old | bpf_htons(3);
	bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old, new, 2);
	return !bpf_skb_store_bytes(skb, ETH_HLEN, &new, sizeof(new), 0);
}

/* Strips the outer header and sends the rest by a NIC. */
always_inline int send_on(struct __sk_buff *skb, const struct subways_settings *s, const struct iphdr *outer, const struct iphdr *inner,
			  __u32 out)
{
	struct bpf_redir_neigh next = { .nh_family = 2 /* AF_INET */ };
	const __be32 *gateway = bpf_map_lookup_elem(&gateways, &out);

	if (bpf_skb_adjust_room(skb, -(__s32)OUTER, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET) ||
	    !experience(skb, outer->tos, inner->tos))
		return drop(SUBWAYS_FAILED);
	/* What a switch chose by this hash, the next must not choose by it again. */
	bpf_set_hash_invalid(skb);
	add(SUBWAYS_FORWARDED, 1);
	add(SUBWAYS_FORWARDED_BYTES, skb->len);
	next.ipv4_nh = gateway && *gateway ? *gateway : inner->daddr;
	return bpf_redirect_neigh(s->ifindex[out & (SUBWAYS_NICS - 1)], &next, sizeof(next), 0);
}

/* The permit for a packet: of its source, else of where it goes next. */
always_inline const struct subways_permit *permit_of(struct subways_permit_key *key, __be32 source, __be32 next)
{
	const struct subways_permit *permit;

	key->host = source;
	key->direction = SUBWAYS_OUT;
	permit = bpf_map_lookup_elem(&permits, key);
	if (permit)
		return permit;
	key->host = next;
	key->direction = SUBWAYS_IN;
	return bpf_map_lookup_elem(&permits, key);
}

/* IP in IP that has come to a NIC. What is not between hosts of the fabric is none of ours. */
always_inline int forward(struct __sk_buff *skb, const struct subways_settings *s)
{
	const struct subways_permit *permit;
	struct subways_permit_key key = { .into = SUBWAYS_NICS };
	__u64 now = bpf_ktime_get_ns();
	struct iphdr outer, inner;
	const __be32 *host, *next;
	__u32 out, length;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &outer, sizeof(outer)))
		return TC_ACT_OK;
	for (int i = 0; i < SUBWAYS_NICS; i++)
		if (s->address[i] && s->address[i] == outer.daddr)
			key.into = i;
	host = bpf_map_lookup_elem(&nics, &outer.saddr);
	if (key.into == SUBWAYS_NICS || !host)
		return TC_ACT_OK;
	out = bpf_ntohs(outer.id);
	if (outer.ihl != 5 || outer.frag_off & bpf_htons(0x3fff) || out >= SUBWAYS_NICS || !(s->up >> out & 1) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + OUTER, &inner, sizeof(inner)))
		return drop(SUBWAYS_REFUSED);
	next = bpf_map_lookup_elem(&nics, &inner.daddr);
	if (!next || inner.version != 4 || inner.ihl != 5 || inner.saddr != outer.saddr ||
	    (inner.protocol != IPPROTO_TCP && inner.protocol != IPPROTO_IPIP))
		return drop(SUBWAYS_REFUSED);
	key.out = out;
	permit = permit_of(&key, *host, *next);
	if (!permit || permit->until_ns <= now)
		return drop(SUBWAYS_REFUSED);
	length = skb->len;
	if (!has_room(&key, permit, length, now))
		return drop(SUBWAYS_OVER_RATE);
	return send_on(skb, s, &outer, &inner, out);
}

#endif
