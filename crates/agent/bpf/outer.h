/* The IPv4 header that encapsulates a packet, of VL2's hosts and of Subways' detours. */
#ifndef WEFT_OUTER_H
#define WEFT_OUTER_H

#include <linux/ip.h>

#include <bpf/bpf_endian.h>

#include "common.h"

#define OUTER_TTL 64

/* `length`: of the header and what it encapsulates. */
always_inline void outer_header(struct iphdr *ip, __u8 tos, __u32 length, __u16 id, __u8 protocol, __be32 source, __be32 destination)
{
	const __u16 *word = (const __u16 *)ip;
	__u32 sum = 0;

	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = tos;
	/* Longer than it can say only if it is many segments. */
	ip->tot_len = length > 0xffff ? 0 : bpf_htons(length);
	ip->id = bpf_htons(id);
	ip->frag_off = bpf_htons(0x4000);
	ip->ttl = OUTER_TTL;
	ip->protocol = protocol;
	ip->saddr = source;
	ip->daddr = destination;
#pragma unroll
	for (__u32 i = 0; i < sizeof(*ip) / 2; i++)
		sum += word[i];
	ip->check = fold(sum);
}

#endif
