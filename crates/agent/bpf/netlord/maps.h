/* Small steps that the host's and the switch's programs share: events, a token bucket. The including program says how many
 * counters it has (NETLORD_COUNTERS), and which enumeration names them (COUNTER).
 */
#ifndef WEFT_NETLORD_COMMON_H
#define WEFT_NETLORD_COMMON_H

#include "layout.h"

#define COUNTERS NETLORD_COUNTERS
#include "../common.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, NETLORD_RING);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

/* Whether a token was there to take from the program's own bucket. */
always_inline int take(__u32 per_second, __u32 burst)
{
	__u32 zero = 0;

	return take_token(bpf_map_lookup_elem(&buckets, &zero), per_second, burst);
}

always_inline int is_same_mac(const __u8 *a, const __u8 *b)
{
	return *(const __u16 *)a == *(const __u16 *)b && *(const __u16 *)(a + 2) == *(const __u16 *)(b + 2) &&
	       *(const __u16 *)(a + 4) == *(const __u16 *)(b + 4);
}

always_inline int is_group(const __u8 *mac)
{
	return mac[0] & 1;
}

always_inline int is_zero_mac(const __u8 *mac)
{
	return !(*(const __u16 *)mac | *(const __u16 *)(mac + 2) | *(const __u16 *)(mac + 4));
}

/* 01:80:c2:00:00:0x: between neighbours, never forwarded. */
always_inline int is_reserved(const __u8 *mac)
{
	return mac[0] == 0x01 && mac[1] == 0x80 && mac[2] == 0xc2 && !mac[3] && !mac[4] && mac[5] < 0x10;
}

/* Reserving takes a constant: one size for common frames, and one for packets of many segments. */
struct netlord_small_event {
	struct netlord_event event;
	__u8 frame[NETLORD_EVENT_SMALL];
};

struct netlord_large_event {
	struct netlord_event event;
	__u8 frame[NETLORD_EVENT_MAX];
};

/* Whether there was room and the frame could be read. */
always_inline int fill_event(struct __sk_buff *skb, enum netlord_event_kind kind, struct netlord_event *event, __u8 *frame, __u32 most)
{
	__u32 length = skb->len;
	int failed;

	__builtin_memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->ifindex = skb->ifindex;
	event->segment = skb->gso_size;
	event->tagged = skb->vlan_present;
	event->tag = skb->vlan_tci;
	/* The verifier has to see the bounds of the very register that is used. */
	asm volatile("" : "+r"(length));
	if (length == 0 || length > most)
		return 0;
	event->captured = length;
	failed = bpf_skb_load_bytes(skb, 0, frame, length);
	return !failed;
}

/* Reports a frame to user space, all of it. Whether there was room. */
verified_alone int report_frame(struct __sk_buff *skb, enum netlord_event_kind kind)
{
	if (skb->len <= NETLORD_EVENT_SMALL) {
		struct netlord_small_event *place = bpf_ringbuf_reserve(&events, sizeof(*place), 0);

		if (!place)
			return 0;
		if (!fill_event(skb, kind, &place->event, place->frame, sizeof(place->frame))) {
			bpf_ringbuf_discard(place, 0);
			return 0;
		}
		bpf_ringbuf_submit(place, 0);
	} else {
		struct netlord_large_event *place = bpf_ringbuf_reserve(&events, sizeof(*place), 0);

		if (!place)
			return 0;
		if (!fill_event(skb, kind, &place->event, place->frame, sizeof(place->frame))) {
			bpf_ringbuf_discard(place, 0);
			return 0;
		}
		bpf_ringbuf_submit(place, 0);
	}
	return 1;
}

always_inline __u16 header_sum(const struct iphdr *ip)
{
	const __u16 *word = (const __u16 *)ip;
	__u32 sum = 0;

#pragma unroll
	for (__u32 i = 0; i < sizeof(*ip) / 2; i++)
		sum += word[i];
	return fold(sum);
}

#endif
