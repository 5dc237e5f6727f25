/* What goes to the agent, and budgets: what senders may hand to the agent, taken before the ring buffer, so that nobody's frames take the ring and the agent from others'.
 *
 *   ring buffer   0 ............. 1/2 ........................ 7/8 ...... 1
 *   a sender must    a token       the more tokens left, the        nothing of tenants: the rest is
 *   have             is enough     fuller the ring is               for NL-ARP, LLDP and signs of paths
 *
 * A sender that is refused since the ring is fuller than half pays its token nevertheless. So those that send more than their rate end with empty buckets and keep the ring
 * half full at most, and those that send less find a place, however many others flood.
 */
#ifndef WEFT_NETLORD_BUDGET_H
#define WEFT_NETLORD_BUDGET_H

#include "host.h"

/* A packet of many segments takes as much of the ring as so many common frames. */
#define NETLORD_LARGE_FRAMES (NETLORD_EVENT_MAX / NETLORD_EVENT_SMALL + 1)
#define NETLORD_KIB 1024

/* The tokens that a sender must have left, of `full`. */
always_inline __u64 tokens_to_keep(__u64 full)
{
	__u64 used = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA), half = NETLORD_RING / 2, most = NETLORD_RING / 8 * 7;

	if (used <= half)
		return 0;
	if (used >= most)
		return ~0ull;
	return full / ((most - half) / NETLORD_KIB) * ((used - half) / NETLORD_KIB);
}

/* Whether a sender may hand a frame to the agent now. */
slow_path int may_hand(struct netlord_budget *budget, __u32 bytes)
{
	__u64 now = bpf_ktime_get_ns(), keep, cost, full;
	int may = 0;

	if (!budget)
		return 0;
	cost = bytes > NETLORD_EVENT_SMALL ? NETLORD_LARGE_FRAMES * TOKEN : TOKEN;
	full = budget->burst * TOKEN;
	keep = tokens_to_keep(full);
	bpf_spin_lock(&budget->lock);
	refill(&budget->tokens, &budget->filled_ns, now, budget->per_second, full);
	if (budget->tokens >= cost) {
		budget->tokens -= cost;
		may = budget->tokens >= keep;
	}
	if (may)
		budget->handed++;
	else
		budget->refused++;
	bpf_spin_unlock(&budget->lock);
	return may;
}

always_inline int to_agent(struct __sk_buff *skb, enum netlord_event_kind kind, __u32 counter)
{
	if (!report_frame(skb, kind))
		return drop(NETLORD_EVENTS_FULL);
	add(counter, 1);
	return TC_ACT_STOLEN;
}

/* A VM's frame, within the budget of its VIF. */
verified_alone int vif_to_agent(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;

	if (!may_hand(bpf_map_lookup_elem(&vif_budgets, &ifindex), skb->len))
		return drop(NETLORD_AGENT_LIMIT);
	return to_agent(skb, NETLORD_EVENT_VIF, NETLORD_TO_AGENT);
}

/* A frame for a MAC space that has a VIF here, within that space's budget. */
slow_path int space_to_agent(struct __sk_buff *skb, struct netlord_budget *budget)
{
	if (!may_hand(budget, skb->len))
		return drop(NETLORD_SPACE_LIMIT);
	return to_agent(skb, NETLORD_EVENT_UPLINK, NETLORD_TO_AGENT);
}

/* To a VIF that is not here. What is for MAC spaces that have none here has one budget in all. */
slow_path int misdelivered(struct __sk_buff *skb, struct netlord_budget *budget)
{
	__u32 zero = 0;
	const struct netlord_host_settings *s = bpf_map_lookup_elem(&settings, &zero);

	if (budget)
		return space_to_agent(skb, budget);
	if (!s || !take(s->misses_per_second, s->misses_burst))
		return drop(NETLORD_MISDELIVERED_LIMIT);
	return to_agent(skb, NETLORD_EVENT_UPLINK, NETLORD_TO_AGENT);
}

always_inline struct netlord_budget *space_budget(const struct netlord_name *name)
{
	struct netlord_space key = { .tenant = name->tenant, .space = name->space };

	return bpf_map_lookup_elem(&space_budgets, &key);
}

/* To all of a MAC space: the agent hands it to all VIFs that it is for. */
slow_path int group_to_agent(struct __sk_buff *skb, const struct netlord_name *name)
{
	struct netlord_budget *budget = name ? space_budget(name) : NULL;

	if (budget)
		return space_to_agent(skb, budget);
	/* It is broadcast to all servers. */
	add(NETLORD_OTHER_SPACES, 1);
	return TC_ACT_SHOT;
}

#endif
