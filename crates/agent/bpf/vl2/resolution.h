/* ARP and NDP at the host: requests for an AA are answered from the table of peers, or handed to the agent (VL2, section 4.2.1).
 * Nothing about an own address is ever answered: probes, gratuitous ARP, IPv6 duplicate address detection. The exception is the ToR, which asks whether the
 * programs run when the agent does not speak.
 */
#ifndef WEFT_VL2_RESOLUTION_H
#define WEFT_VL2_RESOLUTION_H

#include "host.h"

/* After host.h, which says how many counters there are. */
#include "../arp.h"

/* Sends what is now in the packet up to the stack. */
always_inline int answer(struct __sk_buff *skb, __u32 counter)
{
	add(counter, 1);
	skb->mark = VL2_MARK_TO_STACK;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

/* A request for an unknown AA. */
always_inline int ask(struct __sk_buff *skb, const struct vl2_address *asker, const struct vl2_address *target)
{
	struct vl2_scratch *place = begin(VL2_EVENT_RESOLVE, NULL);

	if (!place)
		return TC_ACT_SHOT;
	place->event.flow.source = *asker;
	place->event.flow.destination = *target;
	if (!report(skb, place, ETH_HLEN))
		return drop(VL2_EVENTS_FULL);
	return consume(VL2_RESOLVE_ASKED);
}

/* Of whom a question comes: of an AA, or of a link-local address of this host. */
always_inline __u32 service_of(const struct vl2_settings *s, const struct vl2_local *local)
{
	__u32 service = s->service;

	/* A pointer to either of the two is one that the verifier does not take. */
	if (local)
		service = *(const volatile __u32 *)&local->service;
	return service;
}

always_inline int refused(const struct vl2_peer *peer)
{
	return drop(peer->state == VL2_FORBIDDEN ? VL2_OUT_FORBIDDEN : VL2_OUT_UNKNOWN);
}

always_inline int arp_answer(struct __sk_buff *skb, struct arp *arp, const struct vl2_peer *peer)
{
	return arp_reply(skb, arp, peer->mac, peer->mac) ? answer(skb, VL2_ARP_ANSWERED) : drop(VL2_HEADER_FAILED);
}

slow_path int arp_out(struct __sk_buff *skb, const struct vl2_settings *s)
{
	struct vl2_address sender, target;
	const struct vl2_local *local;
	struct vl2_peer *peer;
	struct arp arp;

	if (!s || !arp_load(skb, &arp))
		return TC_ACT_OK;
	if (skb->mark == VL2_MARK_TO_TOR) {
		skb->mark = 0;
		return TC_ACT_OK;
	}
	sender = arp_address(arp.sender);
	target = arp_address(arp.target);
	if (!is_aa(s, &target))
		return is_aa(s, &sender) ? drop(VL2_FOREIGN_RESOLUTION) : TC_ACT_OK;
	if (arp.operation != bpf_htons(ARP_REQUEST) || same(&sender, &target) || !sender.word[3] ||
	    bpf_map_lookup_elem(&locals, &target))
		return consume(VL2_OWN_ADDRESS_ASKED);
	local = bpf_map_lookup_elem(&locals, &sender);
	if (is_aa(s, &sender) && !local)
		return drop(VL2_FORGED_SOURCE);
	peer = find_peer(&target, service_of(s, local));
	if (!peer)
		return ask(skb, &sender, &target);
	return peer->state == VL2_KNOWN ? arp_answer(skb, &arp, peer) : refused(peer);
}

/* By the virtual MAC, which the kernel's own answer would not have: the programs are here and have the address. */
always_inline int tor_answer(struct __sk_buff *skb, const struct vl2_settings *s, struct arp *arp)
{
	static const __u8 virtual_mac[ETH_ALEN] = { 0x02, 0x57, 0x46, 0x54, 0x00, 0x01 };

	if (!arp_reply(skb, arp, s->mac, virtual_mac))
		return drop(VL2_HEADER_FAILED);
	add(VL2_TOR_ANSWERED, 1);
	skb->mark = VL2_MARK_TO_TOR;
	return bpf_redirect(skb->ifindex, 0);
}

/* ARP about AAs has no place on the wire, but for the ToR's. */
slow_path int arp_in(struct __sk_buff *skb, const struct vl2_settings *s)
{
	struct vl2_address sender, target;
	struct arp arp;

	if (!s || !arp_load(skb, &arp))
		return TC_ACT_OK;
	sender = arp_address(arp.sender);
	target = arp_address(arp.target);
	if (!is_aa(s, &sender) && !is_aa(s, &target))
		return TC_ACT_OK;
	if (s->tor && sender.word[3] == s->tor && arp.operation == bpf_htons(ARP_REQUEST) && bpf_map_lookup_elem(&locals, &target))
		return tor_answer(skb, s, &arp);
	return drop(VL2_FOREIGN_RESOLUTION);
}

#define VL2_SOLICITATION 135
#define VL2_ADVERTISEMENT 136
#define VL2_TARGET_MAC 2

struct vl2_neighbour {
	__u8 type;
	__u8 code;
	__be16 check;
	__be32 flags;
	struct vl2_address target;
	__u8 option;
	__u8 option_length;
	__u8 mac[ETH_ALEN];
};

struct vl2_advertisement {
	__be16 gap; /* so that what follows is aligned */
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct vl2_neighbour body;
};

/* What a checksum of ICMPv6 covers besides the message. */
struct vl2_pseudo {
	struct vl2_address source;
	struct vl2_address destination;
	__be32 length;
	__be32 protocol;
};

slow_path int ndp_answer(struct __sk_buff *skb, const struct vl2_flow *flow, const struct vl2_address *target,
			 const struct vl2_peer *peer)
{
	struct vl2_advertisement a = {};
	struct vl2_pseudo pseudo = {};
	__s64 sum;

	if (!flow || !target || !peer)
		return TC_ACT_SHOT;
	pseudo.source = *target;
	pseudo.destination = flow->source;
	pseudo.length = bpf_htonl(sizeof(a.body));
	pseudo.protocol = bpf_htonl(VL2_PROTO_ICMPV6);
	bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_source), a.eth.h_dest, ETH_ALEN);
	__builtin_memcpy(a.eth.h_source, peer->mac, ETH_ALEN);
	a.eth.h_proto = bpf_htons(ETH_P_IPV6);
	a.ip.version = 6;
	a.ip.payload_len = bpf_htons(sizeof(a.body));
	a.ip.nexthdr = VL2_PROTO_ICMPV6;
	a.ip.hop_limit = 255;
	__builtin_memcpy(&a.ip.saddr, target, sizeof(*target));
	__builtin_memcpy(&a.ip.daddr, &flow->source, sizeof(flow->source));
	a.body.type = VL2_ADVERTISEMENT;
	a.body.flags = bpf_htonl(0x60000000); /* solicited, override */
	a.body.target = *target;
	a.body.option = VL2_TARGET_MAC;
	a.body.option_length = 1;
	__builtin_memcpy(a.body.mac, peer->mac, ETH_ALEN);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&a.body, sizeof(a.body), sum);
	a.body.check = fold(sum);
	if (bpf_skb_change_tail(skb, sizeof(a) - sizeof(a.gap), 0) ||
	    bpf_skb_store_bytes(skb, 0, &a.eth, sizeof(a) - sizeof(a.gap), 0))
		return drop(VL2_HEADER_FAILED);
	return answer(skb, VL2_NDP_ANSWERED);
}

/* A neighbour solicitation or advertisement that leaves. */
slow_path int ndp_out(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_flow *flow, __u32 type)
{
	const struct vl2_local *local;
	struct vl2_address target;
	struct vl2_peer *peer;

	if (!s || !flow)
		return TC_ACT_SHOT;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(struct ipv6hdr) + offsetof(struct vl2_neighbour, target), &target, sizeof(target)))
		return TC_ACT_OK;
	if (!is_aa(s, &target))
		return is_aa(s, &flow->source) ? drop(VL2_FOREIGN_RESOLUTION) : TC_ACT_OK;
	if (type == VL2_ADVERTISEMENT || !(flow->source.word[0] | flow->source.word[1] | flow->source.word[2] | flow->source.word[3]) ||
	    bpf_map_lookup_elem(&locals, &target))
		return consume(VL2_OWN_ADDRESS_ASKED);
	local = bpf_map_lookup_elem(&locals, &flow->source);
	if (is_aa(s, &flow->source) && !local)
		return drop(VL2_FORGED_SOURCE);
	peer = find_peer(&target, service_of(s, local));
	if (!peer)
		return ask(skb, &flow->source, &target);
	return peer->state == VL2_KNOWN ? ndp_answer(skb, flow, &target, peer) : refused(peer);
}

/* Whether it is a neighbour message, and of which kind; 0 if not. */
always_inline __u32 ndp_type(struct __sk_buff *skb, const struct vl2_packet *p)
{
	__u8 type = 0;

	if (p->flow.protocol != VL2_PROTO_ICMPV6 || p->part != VL2_WHOLE)
		return 0;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + p->transport, &type, sizeof(type)))
		return 0;
	return type;
}

/* Neighbour messages about AAs have no place on the wire. */
always_inline int ndp_foreign(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p)
{
	struct vl2_address target;
	__u32 type = ndp_type(skb, p);

	if (type != VL2_SOLICITATION && type != VL2_ADVERTISEMENT)
		return 0;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + p->transport + offsetof(struct vl2_neighbour, target), &target, sizeof(target)))
		return 0;
	return is_aa(s, &target);
}

#endif
