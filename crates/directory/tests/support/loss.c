/* A classifier of tc that loses UDP datagrams at random: LOSS of every 1000.
 *
 *   clang -O2 -g -target bpf -DLOSS=100 -c loss.c -o loss.o
 *   tc qdisc add dev lo clsact
 *   tc filter add dev lo ingress bpf da obj loss.o sec classifier
 *
 * Several datagrams that travel as one (UDP_SEGMENT) are lost as one.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#ifndef LOSS
#error "-DLOSS=N says how many datagrams of 1000 are lost"
#endif

static __always_inline int is_udp(struct __sk_buff *skb)
{
	__u8 protocol = 0;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, protocol), &protocol, 1);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &protocol, 1);
	return protocol == IPPROTO_UDP;
}

SEC("classifier")
int lose(struct __sk_buff *skb)
{
	/* Random numbers are 32 bits: the product's upper half is one of 0..999. */
	if (is_udp(skb) && ((__u64)bpf_get_prandom_u32() * 1000) >> 32 < LOSS)
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
