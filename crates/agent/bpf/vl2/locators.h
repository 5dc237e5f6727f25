/* What arrives for a locator of the host, and not for an AA: the operator's traffic, and answers to the host's own. All else is dropped, so that hosts which the
 * directory keeps apart do not meet there.
 */
#ifndef WEFT_VL2_LOCATORS_H
#define WEFT_VL2_LOCATORS_H

#include <linux/if_packet.h>

#include "host.h"

/* How long a datagram may be answered, and how often sending is noted. */
#define VL2_ANSWER_NS 120000000000ull
#define VL2_NOTE_NS 1000000000ull

/* A datagram leaves a locator: its answer may come. */
slow_path void expect_answer(const struct vl2_flow *flow)
{
	__u64 now = bpf_ktime_get_ns(), *noted;
	struct vl2_flow answer = {};

	if (!flow)
		return;
	answer.source = flow->destination;
	answer.destination = flow->source;
	answer.source_port = flow->destination_port;
	answer.destination_port = flow->source_port;
	answer.protocol = flow->protocol;
	noted = bpf_map_lookup_elem(&answers, &answer);
	if (!noted || since(now, *noted) > VL2_NOTE_NS)
		bpf_map_update_elem(&answers, &answer, &now, BPF_ANY);
}

always_inline int is_answer(const struct vl2_flow *flow)
{
	__u64 *noted = bpf_map_lookup_elem(&answers, flow);

	return noted && since(bpf_ktime_get_ns(), *noted) < VL2_ANSWER_NS;
}

/* Without a SYN no connection begins: the others belong to one, or are answered with RST. */
always_inline int is_connecting(struct __sk_buff *skb, const struct vl2_packet *p)
{
	__u8 flags;

	if (bpf_skb_load_bytes(skb, ETH_HLEN + p->transport + 13, &flags, sizeof(flags)))
		return 1;
	return (flags & (VL2_TCP_SYN | VL2_TCP_ACK)) == VL2_TCP_SYN;
}

always_inline int has_rule(const struct vl2_packet *p)
{
	struct vl2_rule of_port = { .port = p->flow.destination_port, .protocol = p->flow.protocol };
	struct vl2_rule of_protocol = { .protocol = p->flow.protocol };
	struct vl2_rule of_address = { .address = p->flow.destination };

	return bpf_map_lookup_elem(&rules, &of_port) || bpf_map_lookup_elem(&rules, &of_protocol) ||
	       bpf_map_lookup_elem(&rules, &of_address);
}

/* A later fragment has no ports: it follows the first. */
slow_path int locator_fragment(const struct vl2_packet *p, int is_allowed)
{
	struct vl2_fragments key = {};
	__u32 none = 0;

	if (!p)
		return 0;
	key.source = p->flow.source;
	key.destination = p->flow.destination;
	key.id = p->fragment_id;
	key.protocol = p->flow.protocol;
	if (p->part == VL2_LATER)
		return bpf_map_lookup_elem(&fragments, &key) != NULL;
	if (is_allowed)
		bpf_map_update_elem(&fragments, &key, &none, BPF_ANY);
	return is_allowed;
}

slow_path int locator_in(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p, int right)
{
	int is_allowed = 0;

	/* A multicast packet of this host comes back to its own listeners. */
	if (!s || !p || !(s->flags & VL2_LOCATOR_RULES) || skb->pkt_type == PACKET_LOOPBACK)
		return TC_ACT_OK;
	if (right && p->part != VL2_LATER)
		is_allowed = (p->flow.protocol == IPPROTO_TCP && !is_connecting(skb, p)) || has_rule(p) ||
			     (p->flow.protocol == IPPROTO_UDP && is_answer(&p->flow));
	if (right && p->part != VL2_WHOLE)
		is_allowed = locator_fragment(p, is_allowed);
	return is_allowed ? TC_ACT_OK : drop(VL2_LOCATOR_REFUSED);
}

#endif
