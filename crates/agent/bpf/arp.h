/* ARP over Ethernet, for IPv4 (RFC 826). */
#ifndef WEFT_ARP_H
#define WEFT_ARP_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "common.h"

#define ARP_ETHERNET 1
#define ARP_REQUEST 1
#define ARP_REPLY 2

struct arp {
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_length;
	__u8 protocol_length;
	__be16 operation;
	__u8 sender_mac[ETH_ALEN];
	__u8 sender[4];
	__u8 target_mac[ETH_ALEN];
	__u8 target[4];
};

/* Reads the packet's ARP header. False if it is cut off, or of other networks. */
always_inline int arp_load(struct __sk_buff *skb, struct arp *arp)
{
	return !bpf_skb_load_bytes(skb, ETH_HLEN, arp, sizeof(*arp)) && arp->hardware == bpf_htons(ARP_ETHERNET) &&
	       arp->protocol == bpf_htons(ETH_P_IP) && arp->hardware_length == ETH_ALEN && arp->protocol_length == 4;
}

/* Turns the request in the packet into its reply: `mac` has the target's address, and `source` sends it. False if the packet cannot be written. */
always_inline int arp_reply(struct __sk_buff *skb, struct arp *arp, const __u8 *source, const __u8 *mac)
{
	struct ethhdr eth = { .h_proto = bpf_htons(ETH_P_ARP) };

	__builtin_memcpy(eth.h_dest, arp->sender_mac, ETH_ALEN);
	__builtin_memcpy(eth.h_source, source, ETH_ALEN);
	arp->operation = bpf_htons(ARP_REPLY);
	__builtin_memcpy(arp->target_mac, arp->sender_mac, ETH_ALEN);
	__builtin_memcpy(arp->sender_mac, mac, ETH_ALEN);
	for (int i = 0; i < 4; i++) {
		__u8 target = arp->target[i];

		arp->target[i] = arp->sender[i];
		arp->sender[i] = target;
	}
	return !bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) && !bpf_skb_store_bytes(skb, ETH_HLEN, arp, sizeof(*arp), 0);
}

#endif
