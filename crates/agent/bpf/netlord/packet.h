/* Reading a tenant's packet, and the hash of its flow: that of `flow` in crates/control/src/netlord/agent/sending.rs, the same in both directions and on every
 * agent, so that both ends choose one VLAN without a word (section 3.4).
 */
#ifndef WEFT_NETLORD_FLOW_H
#define WEFT_NETLORD_FLOW_H

#include "maps.h"

struct netlord_packet {
	__u8 source[16]; /* IPv4 as ::ffff:a.b.c.d */
	__u8 destination[16];
	__u32 transport; /* offset of the transport header in the frame; 0: no IP packet */
	__be16 ports[2];
	__u8 protocol;
	__u8 ttl;
	__u8 version; /* 0: no IP packet */
	__u8 has_ports;
	__u8 is_fragment; /* a later one: its ports cannot be seen */
	__u8 is_part; /* a fragment, also the first */
};

#define NETLORD_EXTENSIONS 8
#define NETLORD_ICMPV6 58

always_inline void put_mapped(__u8 *to, __be32 address)
{
	__builtin_memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	__builtin_memcpy(to + 12, &address, 4);
}

/* Past the extension headers of IPv6. Whether the chain is whole. */
always_inline int skip_extensions(struct __sk_buff *skb, struct netlord_packet *p)
{
	struct {
		__u8 next;
		__u8 length;
		__be16 offset;
	} e;

	for (int i = 0; i < NETLORD_EXTENSIONS; i++) {
		__u8 this = p->protocol;

		if (this != IPPROTO_HOPOPTS && this != IPPROTO_ROUTING && this != IPPROTO_DSTOPTS && this != IPPROTO_FRAGMENT)
			return 1;
		if (bpf_skb_load_bytes(skb, p->transport, &e, sizeof(e)))
			return 0;
		p->protocol = e.next;
		if (this == IPPROTO_FRAGMENT) {
			p->transport += 8;
			p->is_part |= !!(e.offset & bpf_htons(0xfff9));
			if (e.offset & bpf_htons(0xfff8)) {
				p->is_fragment = 1;
				return 1;
			}
		} else {
			p->transport += (e.length + 1) * 8;
		}
	}
	return 0;
}

always_inline int read_ip(struct __sk_buff *skb, __be16 type, struct netlord_packet *p)
{
	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
			return 0;
		put_mapped(p->source, ip.saddr);
		put_mapped(p->destination, ip.daddr);
		p->transport = ETH_HLEN + ip.ihl * 4;
		p->protocol = ip.protocol;
		p->ttl = ip.ttl;
		p->is_fragment = !!(ip.frag_off & bpf_htons(0x1fff));
		p->is_part = !!(ip.frag_off & bpf_htons(0x3fff));
		p->version = 4;
		return 1;
	}
	if (type == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 6)
			return 0;
		__builtin_memcpy(p->source, &ip.saddr, sizeof(p->source));
		__builtin_memcpy(p->destination, &ip.daddr, sizeof(p->destination));
		p->transport = ETH_HLEN + sizeof(ip);
		p->protocol = ip.nexthdr;
		p->ttl = ip.hop_limit;
		p->version = 6;
		return skip_extensions(skb, p);
	}
	return 0;
}

/* The packet of a frame: whether there is one that can be read. */
verified_alone int read_packet(struct __sk_buff *skb, __be16 type, struct netlord_packet *p)
{
	if (!p)
		return 0;
	__builtin_memset(p, 0, sizeof(*p));
	if (!read_ip(skb, type, p)) {
		__builtin_memset(p, 0, sizeof(*p));
		return 0;
	}
	if ((p->protocol == IPPROTO_TCP || p->protocol == IPPROTO_UDP) && !p->is_fragment)
		p->has_ports = !bpf_skb_load_bytes(skb, p->transport, p->ports, sizeof(p->ports));
	return 1;
}

/* The finisher of SplitMix64, as in crates/fabric/src/rng.rs. */
always_inline __u64 mix(__u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

always_inline __u64 hash_word(__u64 hash, __u64 word, __u32 bytes)
{
	return mix(hash ^ word) + bytes;
}

always_inline __u64 hash_end(const struct netlord_packet *p, const __u8 *address, __be16 port)
{
	__u64 hash = mix((__u64)(p->has_ports ? bpf_ntohs(port) : 0) + 1), word[2];

	__builtin_memcpy(word, address, sizeof(word));
	if (p->version == 4)
		return hash_word(hash, bpf_be64_to_cpu(word[1]) << 32, 4);
	hash = hash_word(hash, bpf_be64_to_cpu(word[0]), 8);
	return hash_word(hash, bpf_be64_to_cpu(word[1]), 8);
}

always_inline __u64 hash_mac(const __u8 *mac)
{
	__u64 word = 0;

	__builtin_memcpy(&word, mac, ETH_ALEN);
	return hash_word(mix(1), bpf_be64_to_cpu(word), ETH_ALEN);
}

always_inline __u64 hash_flow(const struct netlord_packet *p, __be32 tenant, const __u8 *macs)
{
	__u64 from, to;

	if (p->version) {
		from = hash_end(p, p->source, p->ports[0]);
		to = hash_end(p, p->destination, p->ports[1]);
	} else {
		from = hash_mac(macs + ETH_ALEN);
		to = hash_mac(macs);
	}
	/* A sum of mixed values does not know an order. */
	return mix((mix(from) + mix(to)) ^ ((__u64)bpf_ntohl(tenant) << 8 | p->protocol));
}

#endif
