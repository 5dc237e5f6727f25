/* What a switch does beyond the kernel's forwarding, on the ingress hook of each port (VL2, sections 4.2.1 and 4.2.2).
 *
 *   intermediate:  [IPv4 entropy -> anycast][IPv4 entropy -> locator][inner]  loses its first header; the kernel routes on
 *   ToR:           [IPv4 entropy -> locator][inner]  loses the second and goes to the port of the inner destination, with the
 *                  MAC address of the host there; the inner packet, its TTL included, is as it was sent
 *   from a host:   its locator, its outer source and its AA, as this switch knows them, also where the host has encapsulated the packet by itself
 *   to the relay:  DHCP of an AA to the ToR's own locator goes to the agent
 */
#include <linux/if_packet.h>

#include "packet.h"

/* After packet.h, which says how many counters there are. */
#include "../arp.h"

/* Own addresses whose packets are stripped, and in which role. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 256);
	__type(key, __be32);
	__type(value, enum vl2_strip);
} strips SEC(".maps");

/* Ports with hosts, by interface index: whether the locators that may send there are listed in `sources`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} host_ports SEC(".maps");

/* Locators and outer sources of hosts, and the interface indices of their ports. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct vl2_source);
	__type(value, __u32);
} sources SEC(".maps");

/* Whether the host behind the packet's port may send from this locator. */
always_inline int is_source(struct __sk_buff *skb, __be32 address)
{
	struct vl2_source key = { .length = 32, .address = address };
	__u32 *port = bpf_map_lookup_elem(&sources, &key);

	return port && *port == skb->ifindex;
}

always_inline int is_at_port(struct __sk_buff *skb, const struct vl2_address *aa)
{
	const struct vl2_local *local = bpf_map_lookup_elem(&locals, aa);

	return local && local->port == skb->ifindex;
}

/* What a host sends through a tunnel is from one of its addresses, inside and outside. Returns 0, or the counter of the reason why not. */
always_inline __u32 forged_tunnel(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *outer)
{
	struct vl2_address source = {};

	if (outer->part != VL2_WHOLE)
		return VL2_OUTER_FRAGMENT;
	switch (inner_packet(skb, s, outer, &source)) {
	case VL2_INNER_AA:
		return is_at_port(skb, &source) ? 0 : VL2_FORGED_SOURCE;
	case VL2_INNER_OTHER_SOURCE:
		return VL2_FORGED_OUTER;
	case VL2_INNER_TOO_DEEP:
		return VL2_MALFORMED;
	default:
		return 0;
	}
}

/* A packet between locators that comes from a host. Returns 0, or the counter of the reason why it is dropped. */
always_inline __u32 forged(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p, int is_checked)
{
	__u32 reason = is_tunnel(p) ? forged_tunnel(skb, s, p) : 0;
	__be32 source = p->flow.source.word[3];

	if (reason)
		return reason;
	/* 0.0.0.0: a host that asks for its address by DHCP. */
	return !is_checked || !source || is_source(skb, source) ? 0 : VL2_FORGED_OUTER;
}

/* ARP of a host is about its own addresses. */
slow_path int arp_from_port(struct __sk_buff *skb, const struct vl2_settings *s)
{
	__u32 port = skb->ifindex, *is_checked = bpf_map_lookup_elem(&host_ports, &port);
	struct vl2_address sender;
	struct arp arp;
	int right;

	if (!s || !is_checked || !arp_load(skb, &arp))
		return TC_ACT_OK;
	sender = arp_address(arp.sender);
	right = is_aa(s, &sender) ? is_at_port(skb, &sender) : !*is_checked || !sender.word[3] || is_source(skb, sender.word[3]);
	return right ? TC_ACT_OK : drop(VL2_FOREIGN_RESOLUTION);
}

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

/* A host's message to the relay of DHCP, from an address that is behind the port: the agent has it, and the kernel, which has no route to AAs, does not. */
slow_path int to_relay(struct __sk_buff *skb, const struct vl2_flow *flow)
{
	struct vl2_scratch *place;

	if (!flow || !is_at_port(skb, &flow->source))
		return drop(VL2_FORGED_SOURCE);
	if (!take(VL2_BUCKET_BROADCAST, 1000, 100))
		return drop(VL2_BROADCAST_LIMITED);
	place = begin(VL2_EVENT_DHCP, flow);
	if (!place || !report(skb, place, VL2_HELD_MAX))
		return drop(VL2_EVENTS_FULL);
	return consume(VL2_DHCP_TO_RELAY);
}

always_inline int from_port(struct __sk_buff *skb, const struct vl2_settings *s, __u32 version)
{
	struct vl2_packet p;
	const enum vl2_strip *role;
	int right = parse(skb, ETH_HLEN, version, &p);
	__u32 port = skb->ifindex, reason, *is_checked;

	if (is_aa(s, &p.flow.source) || is_aa(s, &p.flow.destination))
		return right && is_to_relay(&p, s->la) ? to_relay(skb, &p.flow) : drop(VL2_PLAIN);
	/* Multicast packets of this switch itself come back to its own listeners. */
	is_checked = version == 4 && skb->pkt_type != PACKET_LOOPBACK ? bpf_map_lookup_elem(&host_ports, &port) : NULL;
	if (is_checked) {
		reason = forged(skb, s, &p, *is_checked);
		if (reason)
			return drop(reason);
	}
	if (version != 4 || !right || !is_tunnel(&p)) {
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
	/* One call: each has its packets on the stack. */
	if (skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6))
		return from_port(skb, s, skb->protocol == bpf_htons(ETH_P_IP) ? 4 : 6);
	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return arp_from_port(skb, s);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
