/* Maps and small steps that the host's and the switch's programs share: counting, events, token buckets, stripping. */
#ifndef WEFT_VL2_COMMON_H
#define WEFT_VL2_COMMON_H

#include "layout.h"

#define COUNTERS VL2_COUNTERS
#define COUNTER vl2_counter
#include "../common.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vl2_settings);
} settings SEC(".maps");

/* AAs that are here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct vl2_address);
	__type(value, struct vl2_local);
} locals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VL2_BUCKETS);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

struct vl2_scratch {
	struct vl2_event event;
	__u8 frame[VL2_HELD_MAX];
};

/* Where an event is put together; the hooks run with soft interrupts off, so one a CPU will do. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vl2_scratch);
} scratch SEC(".maps");

/* Taken over, or answered: to the sender it looks sent. */
always_inline int consume(__u32 counter)
{
	add(counter, 1);
	return TC_ACT_STOLEN;
}

always_inline struct vl2_address mapped(__be32 address)
{
	return (struct vl2_address){ { 0, 0, bpf_htonl(0xffff), address } };
}

/* An address in an ARP packet. */
always_inline struct vl2_address arp_address(const __u8 *bytes)
{
	__be32 address;

	__builtin_memcpy(&address, bytes, sizeof(address));
	return mapped(address);
}

always_inline int within(const struct vl2_prefix *prefix, const struct vl2_address *a)
{
	return !(((a->word[0] & prefix->mask.word[0]) ^ prefix->address.word[0]) |
		 ((a->word[1] & prefix->mask.word[1]) ^ prefix->address.word[1]) |
		 ((a->word[2] & prefix->mask.word[2]) ^ prefix->address.word[2]) |
		 ((a->word[3] & prefix->mask.word[3]) ^ prefix->address.word[3]));
}

always_inline int is_aa(const struct vl2_settings *s, const struct vl2_address *a)
{
	return within(&s->aa4, a) || within(&s->aa6, a);
}

always_inline int is_mapped(const struct vl2_address *a)
{
	return !a->word[0] && !a->word[1] && a->word[2] == bpf_htonl(0xffff);
}

always_inline int is_multicast4(__be32 address)
{
	return (address & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000);
}

always_inline int same(const struct vl2_address *a, const struct vl2_address *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] && a->word[3] == b->word[3];
}

/* Whether a token was there to take. */
always_inline int take(__u32 which, __u32 per_second, __u32 burst)
{
	return take_token(bpf_map_lookup_elem(&buckets, &which), per_second, burst);
}

/* The place where an event is put together, cleared but for the frame. */
always_inline struct vl2_scratch *begin(enum vl2_event_kind kind, const struct vl2_flow *flow)
{
	__u32 zero = 0;
	struct vl2_scratch *place = bpf_map_lookup_elem(&scratch, &zero);

	if (!place)
		return NULL;
	place->event = (struct vl2_event){ .kind = kind };
	if (flow)
		place->event.flow = *flow;
	return place;
}

/* Reports it, with so many bytes of the frame. Whether there was room. */
always_inline int report(struct __sk_buff *skb, struct vl2_scratch *place, __u32 capture)
{
	if (capture > skb->len)
		capture = skb->len;
	/* The verifier has to see the bounds of the very register that is used. */
	asm volatile("" : "+r"(capture));
	if (capture > VL2_HELD_MAX)
		return 0;
	if (capture && bpf_skb_load_bytes(skb, 0, place->frame, capture))
		return 0;
	place->event.captured = capture;
	return !bpf_ringbuf_output(&events, place, sizeof(place->event) + capture, 0);
}

/* Samples show the directory which agent has a stale mapping (VL2, section 4.3.2). */
slow_path int not_local(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_flow *inner,
		       const struct vl2_flow *outer)
{
	struct vl2_scratch *place;

	if (s && take(VL2_BUCKET_SAMPLES, s->samples_per_second, s->samples_burst)) {
		place = begin(VL2_EVENT_UNDELIVERABLE, inner);
		if (place && outer) {
			place->event.outer_source = outer->source.word[3];
			place->event.locator = outer->destination.word[3];
			if (report(skb, place, 0))
				add(VL2_UNDELIVERABLE_SAMPLED, 1);
		}
	}
	return drop(VL2_NOT_LOCAL);
}

/* The inner header takes over congestion that the outer one met (RFC 6040, section 4.2). False: the packet must be dropped. */
slow_path int experience(struct __sk_buff *skb, __u32 inner_version)
{
	__be16 old, new;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &old, sizeof(old)))
		return 0;
	if (inner_version == 4) {
		if (!(old & bpf_htons(3)))
			return 0;
		new = old | bpf_htons(3);
		if (new == old)
			return 1;
		bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old, new, 2);
		bpf_skb_store_bytes(skb, ETH_HLEN, &new, sizeof(new), 0);
	} else {
		if (!(old & bpf_htons(0x30)))
			return 0;
		new = old | bpf_htons(0x30);
		if (new == old)
			return 1;
		bpf_skb_store_bytes(skb, ETH_HLEN, &new, sizeof(new), BPF_F_RECOMPUTE_CSUM);
	}
	add(VL2_ECN_MARKED, 1);
	return 1;
}

/* BPF_F_ADJ_ROOM_DECAP_L3_IPV6, of Linux 6.3; older headers do not have it. */
#define VL2_DECAP_L3_IPV6 (1ull << 8)

/* Strips the outer header of 20 bytes: a version 4 or 6 packet is left. Returns 0, or the counter of the reason why not. */
always_inline int strip(struct __sk_buff *skb, __u8 outer_tos, __u32 inner_version)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;
	__be16 type = bpf_htons(ETH_P_IPV6);

	if (inner_version == 6)
		flags |= VL2_DECAP_L3_IPV6;
	if (bpf_skb_adjust_room(skb, -VL2_OUTER, BPF_ADJ_ROOM_MAC, flags))
		return VL2_HEADER_FAILED;
	if (inner_version == 6)
		bpf_skb_store_bytes(skb, offsetof(struct ethhdr, h_proto), &type, sizeof(type), 0);
	/* What a switch chose by this hash, the next must not choose by it again. */
	bpf_set_hash_invalid(skb);
	if ((outer_tos & 3) == 3 && !experience(skb, inner_version))
		return VL2_ECN_DROPPED;
	return 0;
}

#endif
