/* Reading an IP packet, and the hash of its flow. Everything is copied out by bpf_skb_load_bytes, which checks bounds and does not mind
 * where the kernel keeps the bytes.
 */
#ifndef WEFT_VL2_PACKET_H
#define WEFT_VL2_PACKET_H

#include "maps.h"

enum vl2_part { VL2_WHOLE, VL2_FIRST, VL2_LATER };

struct vl2_packet {
	struct vl2_flow flow;
	__u32 length; /* bytes from the IP header on, by its own word */
	__u32 transport; /* offset of the transport header from the IP header */
	__u32 fragment_id;
	__u8 part; /* enum vl2_part */
	__u8 tos;
};

/* Protocols whose header begins with two ports. */
always_inline int has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP ||
	       protocol == IPPROTO_UDPLITE;
}

/* The ports, unless there are none. Whether the packet holds what it should. */
always_inline int parse_ports(struct __sk_buff *skb, __u32 offset, struct vl2_packet *p)
{
	__be16 ports[2];

	if (p->part == VL2_LATER || !has_ports(p->flow.protocol))
		return 1;
	if (p->length < p->transport + sizeof(ports) || bpf_skb_load_bytes(skb, offset + p->transport, ports, sizeof(ports)))
		return 0;
	p->flow.source_port = ports[0];
	p->flow.destination_port = ports[1];
	return 1;
}

/* A packet of several segments may be larger than its header can say. */
always_inline int fits(struct __sk_buff *skb, __u32 offset, struct vl2_packet *p, __u32 header, __u32 none)
{
	if (p->length == none && skb->gso_size)
		p->length = skb->len - offset;
	return p->length >= header && offset + p->length <= skb->len;
}

always_inline int parse4(struct __sk_buff *skb, __u32 offset, struct vl2_packet *p)
{
	struct iphdr ip;
	__u16 fragment;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
		return 0;
	/* Whose it is has to be known of a malformed packet too. */
	p->flow.source = mapped(ip.saddr);
	p->flow.destination = mapped(ip.daddr);
	if (ip.version != 4 || ip.ihl < 5)
		return 0;
	p->length = bpf_ntohs(ip.tot_len);
	p->transport = ip.ihl * 4;
	if (!fits(skb, offset, p, p->transport, 0))
		return 0;
	fragment = bpf_ntohs(ip.frag_off);
	p->part = fragment & 0x1fff ? VL2_LATER : fragment & 0x2000 ? VL2_FIRST : VL2_WHOLE;
	p->fragment_id = ip.id;
	p->tos = ip.tos;
	p->flow.protocol = ip.protocol;
	return parse_ports(skb, offset, p);
}

struct vl2_extension {
	__u8 next;
	__u8 length;
	__be16 fragment;
	__be32 id;
};

#define VL2_EXTENSIONS 6

/* Goes over the extension headers to the transport header. */
always_inline int parse_extensions(struct __sk_buff *skb, __u32 offset, struct vl2_packet *p)
{
	struct vl2_extension e;

#pragma unroll
	for (int i = 0; i < VL2_EXTENSIONS; i++) {
		__u8 protocol = p->flow.protocol;

		if (p->part == VL2_LATER)
			return 1;
		if (protocol != IPPROTO_HOPOPTS && protocol != IPPROTO_ROUTING && protocol != IPPROTO_DSTOPTS &&
		    protocol != IPPROTO_FRAGMENT)
			return 1;
		if (p->length < p->transport + sizeof(e) || bpf_skb_load_bytes(skb, offset + p->transport, &e, sizeof(e)))
			return 0;
		p->flow.protocol = e.next;
		if (protocol == IPPROTO_FRAGMENT) {
			p->fragment_id = e.id;
			p->part = e.fragment & bpf_htons(0xfff8) ? VL2_LATER : e.fragment & bpf_htons(1) ? VL2_FIRST : VL2_WHOLE;
			p->transport += sizeof(e);
		} else {
			p->transport += (e.length + 1) * 8;
		}
	}
	/* A chain this long is nobody's. */
	return 0;
}

always_inline int parse6(struct __sk_buff *skb, __u32 offset, struct vl2_packet *p)
{
	struct ipv6hdr ip;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
		return 0;
	__builtin_memcpy(&p->flow.source, &ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(&p->flow.destination, &ip.daddr, sizeof(ip.daddr));
	if (ip.version != 6)
		return 0;
	p->length = bpf_ntohs(ip.payload_len) + sizeof(ip);
	p->transport = sizeof(ip);
	if (!fits(skb, offset, p, sizeof(ip), sizeof(ip)))
		return 0;
	p->part = VL2_WHOLE;
	p->tos = ip.priority << 4 | ip.flow_lbl[0] >> 4;
	p->flow.protocol = ip.nexthdr;
	/* IPv4 addresses in IPv6 headers are nobody's, and would be taken for AAs of IPv4 here. */
	if (is_mapped(&p->flow.source) || is_mapped(&p->flow.destination))
		return 0;
	return parse_extensions(skb, offset, p) && parse_ports(skb, offset, p);
}

/* The packet that begins at an offset of the frame. Whether its headers agree with one another and with the frame. */
always_inline int parse(struct __sk_buff *skb, __u32 offset, __u32 version, struct vl2_packet *p)
{
	__builtin_memset(p, 0, sizeof(*p));
	return version == 4 ? parse4(skb, offset, p) : parse6(skb, offset, p);
}

always_inline int is_tunnel(const struct vl2_packet *p)
{
	return p->flow.protocol == VL2_PROTO_IPV4 || p->flow.protocol == VL2_PROTO_IPV6;
}

#define VL2_DHCP_SERVER 67
#define VL2_DHCP_CLIENT 68

/* A datagram of DHCP between an AA and the relay of its ToR: the one thing that a locator and an AA may send each other. */
always_inline int is_relayed(const struct vl2_packet *p, const struct vl2_address *end, __be32 relay, __u16 from, __u16 to)
{
	return relay && is_mapped(end) && end->word[3] == relay && p->flow.protocol == IPPROTO_UDP && p->part == VL2_WHOLE &&
	       p->flow.source_port == bpf_htons(from) && p->flow.destination_port == bpf_htons(to);
}

always_inline int is_to_relay(const struct vl2_packet *p, __be32 relay)
{
	return is_relayed(p, &p->flow.destination, relay, VL2_DHCP_CLIENT, VL2_DHCP_SERVER);
}

always_inline int is_from_relay(const struct vl2_packet *p, __be32 relay)
{
	return is_relayed(p, &p->flow.source, relay, VL2_DHCP_SERVER, VL2_DHCP_CLIENT);
}

enum vl2_inner { VL2_INNER_FOREIGN, VL2_INNER_AA, VL2_INNER_OTHER_SOURCE, VL2_INNER_TOO_DEEP };

/* Where a packet within others is read: the stack has no room for it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vl2_packet);
} inner_place SEC(".maps");

/* `parse` with a frame of its own. */
slow_path int parse_inner(struct __sk_buff *skb, __u32 offset, __u32 version, struct vl2_packet *p)
{
	return p && parse(skb, offset, version, p);
}

/* The packet within one or two outer headers, whose source is left in `source`: whether it is between AAs. Agents push no more than two headers, both with the
 * same source.
 */
always_inline enum vl2_inner inner_packet(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *outer,
					 struct vl2_address *source)
{
	__u32 offset, protocol, zero = 0;
	struct vl2_packet *inner = bpf_map_lookup_elem(&inner_place, &zero);

	if (!inner)
		return VL2_INNER_TOO_DEEP;
	offset = ETH_HLEN + outer->transport;
	protocol = outer->flow.protocol;
#pragma unroll
	for (int depth = 0; depth < 2; depth++) {
		int right = parse_inner(skb, offset, protocol == VL2_PROTO_IPV4 ? 4 : 6, inner);

		if (is_aa(s, &inner->flow.source) || is_aa(s, &inner->flow.destination)) {
			*source = inner->flow.source;
			return VL2_INNER_AA;
		}
		if (!right || !is_tunnel(inner))
			return VL2_INNER_FOREIGN;
		if (!same(&inner->flow.source, &outer->flow.source))
			return VL2_INNER_OTHER_SOURCE;
		offset += inner->transport;
		protocol = inner->flow.protocol;
	}
	return VL2_INNER_TOO_DEEP;
}

/* Bytes of the largest IP packet that it is sent as: of one of its segments, if it is several. */
always_inline __u32 wire_length(struct __sk_buff *skb, __u32 offset, const struct vl2_packet *p)
{
	__u32 header = 8;
	__u8 words;

	if (!skb->gso_size)
		return p->length;
	if (p->flow.protocol == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, offset + p->transport + 12, &words, sizeof(words)))
			return p->length;
		header = (words >> 4) * 4;
	}
	return p->transport + header + skb->gso_size;
}

always_inline __u32 rotate(__u32 x, __u32 bits)
{
	return x << bits | x >> (32 - bits);
}

/* MurmurHash3 of a five-tuple, the salt as seed: ours, as the kernel's may change when a sender times out. */
always_inline __u32 hash_flow(const struct vl2_flow *flow, __u32 salt)
{
	const __u32 *word = (const __u32 *)flow;
	__u32 hash = salt;

#pragma unroll
	for (__u32 i = 0; i < sizeof(*flow) / sizeof(*word); i++) {
		hash ^= rotate(word[i] * 0xcc9e2d51, 15) * 0x1b873593;
		hash = rotate(hash, 13) * 5 + 0xe6546b64;
	}
	hash ^= sizeof(*flow);
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	return hash ^ hash >> 16;
}

#endif
