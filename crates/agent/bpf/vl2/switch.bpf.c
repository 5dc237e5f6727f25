/* What a switch does beyond the kernel's forwarding, on the ingress hook of each port (VL2, sections 4.2.1 and 4.2.2).
 *
 *   intermediate:  [IPv4 entropy -> anycast][IPv4 entropy -> locator][inner]  loses its first header; the kernel routes on
 *   ToR:           [IPv4 entropy -> locator][inner]  loses the second and goes to the port of the inner destination, with the
 *                  MAC address of the host there; the inner packet, its TTL included, is as it was sent
 */
#include "packet.h"

/* Own addresses whose packets are stripped, and in which role. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 256);
	__type(key, __be32);
	__type(value, enum vl2_strip);
} strips SEC(".maps");

/* The next header has to be another outer one, between locators: an intermediate switch relays nothing else. */
always_inline int intermediate(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *outer)
{
	struct vl2_packet p;
	__u32 reason;

	if (outer->flow.protocol != VL2_PROTO_IPV4 || !parse(skb, ETH_HLEN + VL2_OUTER, 4, &p) || p.transport != VL2_OUTER ||
	    (p.flow.protocol != VL2_PROTO_IPV4 && p.flow.protocol != VL2_PROTO_IPV6))
		return drop(VL2_MALFORMED);
	if (is_aa(s, &p.flow.source) || is_aa(s, &p.flow.destination))
		return drop(VL2_PLAIN);
	reason = strip(skb, outer->tos, 4);
	if (reason)
		return drop(reason);
	add(VL2_STRIPPED_INTERMEDIATE, 1);
	return TC_ACT_OK;
}

always_inline int deliver(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *outer)
{
	__u32 version = outer->flow.protocol == VL2_PROTO_IPV4 ? 4 : 6, reason;
	int right;
	const struct vl2_local *local;
	__u8 macs[2 * ETH_ALEN];
	struct vl2_packet p;

	right = parse(skb, ETH_HLEN + VL2_OUTER, version, &p);

	/* Another tunnel of this switch. */
	if (!is_aa(s, &p.flow.destination))
		return TC_ACT_OK;
	if (!right)
		return drop(VL2_MALFORMED);
	local = bpf_map_lookup_elem(&locals, &p.flow.destination);
	if (!local)
		return not_local(skb, s, &p.flow, &outer->flow);
	reason = strip(skb, outer->tos, version);
	if (reason)
		return drop(reason);
	/* The frame goes from the switch's MAC address, at which it came, to the host's. */
	__builtin_memcpy(macs, local->mac, ETH_ALEN);
	if (bpf_skb_load_bytes(skb, 0, macs + ETH_ALEN, ETH_ALEN) || bpf_skb_store_bytes(skb, 0, macs, sizeof(macs), 0))
		return drop(VL2_HEADER_FAILED);
	add(VL2_STRIPPED_TOR, 1);
	return bpf_redirect(local->port, 0);
}

always_inline int from_port(struct __sk_buff *skb, const struct vl2_settings *s, __u32 version)
{
	struct vl2_packet p;
	const enum vl2_strip *role;
	int right = parse(skb, ETH_HLEN, version, &p);

	if (is_aa(s, &p.flow.source) || is_aa(s, &p.flow.destination))
		return drop(VL2_PLAIN);
	if (version != 4 || !right || (p.flow.protocol != VL2_PROTO_IPV4 && p.flow.protocol != VL2_PROTO_IPV6)) {
		add(VL2_UNTOUCHED, 1);
		return TC_ACT_OK;
	}
	role = bpf_map_lookup_elem(&strips, &p.flow.destination.word[3]);
	if (!role) {
		/* Forwarded. Its path is chosen by its addresses here, and not by a hash that some other machine left in it. */
		bpf_set_hash_invalid(skb);
		return TC_ACT_OK;
	}
	if (p.part != VL2_WHOLE)
		return drop(VL2_OUTER_FRAGMENT);
	if (p.transport != VL2_OUTER)
		return drop(VL2_MALFORMED);
	return *role == VL2_STRIP_TOR ? deliver(skb, s, &p) : intermediate(skb, s, &p);
}

SEC("tc")
int vl2_port(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct vl2_settings *s = bpf_map_lookup_elem(&settings, &zero);

	if (!s)
		return TC_ACT_OK;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return from_port(skb, s, 4);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return from_port(skb, s, 6);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
