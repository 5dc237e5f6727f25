/* A VL2 agent's half in the kernel: the two hooks of a host's NIC (VL2, sections 4.2.1 to 4.2.3).
 *
 *   out, to an AA:  [Ethernet][IPv4 entropy -> anycast][IPv4 entropy -> locator][inner packet, untouched]
 *                   one outer header only: no intermediate switch, or the locator is that of the host's own ToR
 *   placed:         the first header's destination is the own locator of the intermediate switch that a scheduler chose for the flow
 *   in:             the inner packet as the ToR delivers it, or with its last header if this host is the locator
 *
 * What is neither from nor to an AA leaves untouched, and arrives as locators.h says. Between an AA and a locator there is DHCP with the own ToR's relay, and
 * nothing else.
 */
#include "locators.h"
#include "resolution.h"
#include "../outer.h"

/* Ethernet and two IPv4 headers, these aligned. */
struct vl2_headers {
	__be16 gap;
	struct ethhdr eth;
	struct iphdr ip[2];
};

always_inline const struct vl2_settings *get_settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

/* Makes room for the headers and writes them. The hash that the socket gave is for this kernel's queues, not for switches to choose by. */
always_inline int push(struct __sk_buff *skb, struct vl2_headers *headers, __u32 size)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;

	headers->eth.h_proto = bpf_htons(ETH_P_IP);
	return !bpf_skb_adjust_room(skb, size, BPF_ADJ_ROOM_MAC, flags) &&
	       !bpf_skb_store_bytes(skb, 0, &headers->eth, ETH_HLEN + size, BPF_F_INVALIDATE_HASH);
}

/* The kernel draws another hash for a socket when its sender times out: a full window was lost (VL2, section 4.2.2). */
slow_path void congestion(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_flow *flow,
			  struct vl2_flow_state *state)
{
	__u64 now = bpf_ktime_get_ns();
	struct vl2_scratch *place;

	if (!s || !flow || !state)
		return;
	state->kernel_hash = skb->hash;
	if (state->reported_ns && since(now, state->reported_ns) < s->congestion_ns)
		return;
	place = begin(VL2_EVENT_CONGESTION, flow);
	if (!place || !report(skb, place, 0))
		return;
	state->reported_ns = now;
	add(VL2_CONGESTION_EVENTS, 1);
}

/* The hash of a packet's flow, with the agent's salt. */
always_inline __u32 salted_hash(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_flow *flow)
{
	struct vl2_flow_state *state = bpf_map_lookup_elem(&flows, flow);
	__u32 kernel_hash = skb->hash;

	if (!state) {
		struct vl2_flow_state fresh = { .kernel_hash = kernel_hash };

		bpf_map_update_elem(&flows, flow, &fresh, BPF_NOEXIST);
		return hash_flow(flow, 0);
	}
	if (flow->protocol == IPPROTO_TCP && kernel_hash && state->kernel_hash != kernel_hash) {
		if (state->kernel_hash)
			congestion(skb, s, flow, state);
		else
			state->kernel_hash = kernel_hash;
	}
	return hash_flow(flow, state->salt);
}

/* Later fragments have no ports: they follow the first. */
slow_path __u32 fragment_hash(const struct vl2_packet *p, __u32 hash)
{
	struct vl2_fragments key = {};
	__u32 *first;

	if (!p)
		return hash;
	key.source = p->flow.source;
	key.destination = p->flow.destination;
	key.id = p->fragment_id;
	key.protocol = p->flow.protocol;
	if (p->part == VL2_FIRST) {
		bpf_map_update_elem(&fragments, &key, &hash, BPF_ANY);
		return hash;
	}
	first = bpf_map_lookup_elem(&fragments, &key);
	return first ? *first : hash;
}

/* The hash's bits of the prefix that is routed to this host. Neither all zeros nor all ones: some kernels take these for broadcasts. */
always_inline __u32 entropy_bits(const struct vl2_settings *s, __u32 hash)
{
	__u32 wild = ~bpf_ntohl(s->entropy_mask), bits = hash & wild;

	return bits == 0 ? 1 : bits == wild ? wild - 1 : bits;
}

/* Remembers whose the outer source is, for ICMP errors that do not quote enough. */
always_inline void remember_path(__u32 bits, __u32 hash, const struct vl2_flow *flow)
{
	__u32 index = bits & (VL2_PATHS_MAX - 1);
	struct vl2_path *path = bpf_map_lookup_elem(&paths, &index);

	if (path && path->hash != hash) {
		path->hash = hash;
		path->flow = *flow;
	}
}

/* Reports a packet with so many bytes of it; it was `counted` for, or dropped if there is no room. */
always_inline int hand_over(struct __sk_buff *skb, enum vl2_event_kind kind, const struct vl2_flow *flow, __u32 counted)
{
	struct vl2_scratch *place;

	if (skb->len > VL2_HELD_MAX)
		return drop(VL2_HOLD_TOO_LARGE);
	place = begin(kind, flow);
	if (!place)
		return TC_ACT_SHOT;
	place->event.segment = skb->gso_size;
	if (!report(skb, place, VL2_HELD_MAX))
		return drop(VL2_EVENTS_FULL);
	return consume(counted);
}

slow_path int too_big(struct __sk_buff *skb, const struct vl2_flow *flow, __u32 mtu)
{
	struct vl2_scratch *place = begin(VL2_EVENT_TOO_BIG, flow);

	if (place) {
		place->event.mtu = mtu;
		if (!report(skb, place, VL2_EXCERPT))
			add(VL2_EVENTS_FULL, 1);
	}
	return drop(VL2_TOO_BIG);
}

slow_path int miss_out(struct __sk_buff *skb, const struct vl2_flow *flow)
{
	if (skb->mark == VL2_MARK_RELEASE_OUT)
		return drop(VL2_RELEASED_LATE);
	return hand_over(skb, VL2_EVENT_MISS_OUT, flow, VL2_MISS_OUT);
}

/* Reports something of a flow, without any of the packet. Whether there was room. */
always_inline int report_flow(struct __sk_buff *skb, enum vl2_event_kind kind, const struct vl2_flow *flow)
{
	struct vl2_scratch *place = begin(kind, flow);

	return place && report(skb, place, 0);
}

/* Counts what a TCP flow sends. That it has become an elephant (as Mahout's hosts find them), and that such a one has ended, is reported once. */
slow_path void count_flow(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p)
{
	struct vl2_count *count;
	__u64 now = bpf_ktime_get_ns();
	__u8 flags = 0;

	if (!s || !p || bpf_skb_load_bytes(skb, ETH_HLEN + p->transport + 13, &flags, sizeof(flags)))
		return;
	count = bpf_map_lookup_elem(&counts, &p->flow);
	/* Acknowledgements alone are no flow of their own. */
	if (!count) {
		struct vl2_count fresh = { .bytes = p->length, .first_ns = now, .last_ns = now };

		if (p->length > p->transport + VL2_TCP_HEADER_MAX)
			bpf_map_update_elem(&counts, &p->flow, &fresh, BPF_NOEXIST);
		return;
	}
	/* Another connection with the same ports. */
	if (flags & VL2_TCP_SYN) {
		count->bytes = 0;
		count->first_ns = now;
		count->flags = 0;
	}
	__sync_fetch_and_add(&count->bytes, p->length);
	count->last_ns = now;
	if (!(count->flags & VL2_ELEPHANT)) {
		if (count->bytes >= s->elephant_bytes && report_flow(skb, VL2_EVENT_ELEPHANT, &p->flow))
			count->flags |= VL2_ELEPHANT;
	} else if (flags & (VL2_TCP_FIN | VL2_TCP_RST) && !(count->flags & VL2_ENDED)) {
		if (report_flow(skb, VL2_EVENT_FLOW_END, &p->flow))
			count->flags |= VL2_ENDED;
	}
}

/* The scheduler's choice for a packet's flow, if it has one; the flow is counted. */
always_inline const struct vl2_placement *placement_of(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p)
{
	if (!(s->flags & VL2_PLACEMENTS) || p->flow.protocol != IPPROTO_TCP || p->part != VL2_WHOLE)
		return NULL;
	count_flow(skb, s, p);
	return bpf_map_lookup_elem(&placements, &p->flow);
}

/* To a known peer: with two headers over an intermediate switch of `group`, or with one if there is none. */
always_inline int send(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p, struct vl2_peer *peer,
		       const struct vl2_group *group)
{
	__u32 size = group ? 2 * VL2_OUTER : VL2_OUTER, limit = s->mtu - size, hash, bits, pushed;
	__u8 protocol = is_mapped(&p->flow.destination) ? VL2_PROTO_IPV4 : VL2_PROTO_IPV6;
	struct vl2_headers headers;
	const struct vl2_placement *placed = NULL;
	__be32 source;

	if (wire_length(skb, ETH_HLEN, p) > limit)
		return too_big(skb, &p->flow, limit);
	hash = salted_hash(skb, s, &p->flow);
	if (p->part != VL2_WHOLE)
		hash = fragment_hash(p, hash);
	if (group)
		placed = placement_of(skb, s, p);
	if (placed && placed->entropy)
		hash = placed->entropy;
	bits = entropy_bits(s, hash);
	remember_path(bits, hash, &p->flow);
	source = s->entropy | bpf_htonl(bits);
	__builtin_memcpy(headers.eth.h_dest, s->gateway, ETH_ALEN);
	__builtin_memcpy(headers.eth.h_source, s->mac, ETH_ALEN);
	add(VL2_PUSHED_BYTES, skb->len);
	if (group) {
		/* Other bits of the hash than those that choose the source: ECMP uses these. */
		__u32 which = (__u64)(hash * 0x9e3779b1) * group->count >> 32;

		outer_header(&headers.ip[1], p->tos, p->length + VL2_OUTER, 0, protocol, source, peer->locator);
		outer_header(&headers.ip[0], p->tos, p->length + 2 * VL2_OUTER, 0, VL2_PROTO_IPV4, source,
			     placed ? placed->intermediate : group->anycast[which & (VL2_GROUP_MAX - 1)]);
		pushed = push(skb, &headers, 2 * VL2_OUTER);
		add(VL2_PUSHED_TWO, pushed);
		if (placed)
			add(VL2_PUSHED_PLACED, pushed);
	} else {
		outer_header(&headers.ip[0], p->tos, p->length + VL2_OUTER, 0, protocol, source, peer->locator);
		pushed = push(skb, &headers, VL2_OUTER);
		add(VL2_PUSHED_ONE, pushed);
	}
	return pushed ? TC_ACT_OK : drop(VL2_HEADER_FAILED);
}

always_inline int unicast_out(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p, __u32 service)
{
	struct vl2_peer *peer = find_peer(&p->flow.destination, service);
	const struct vl2_group *group = NULL;

	if (!peer)
		return miss_out(skb, &p->flow);
	if (peer->state != VL2_KNOWN)
		return refused(peer);
	if (!peer->used)
		peer->used = 1;
	if (s->flags & VL2_INTERMEDIATES && peer->group && peer->locator != s->tor) {
		__u32 number = peer->group;

		group = bpf_map_lookup_elem(&groups, &number);
		if (!group)
			return miss_out(skb, &p->flow);
	}
	if (!(s->gateway[0] | s->gateway[1] | s->gateway[2] | s->gateway[3] | s->gateway[4] | s->gateway[5]))
		return drop(VL2_NO_GATEWAY);
	if (skb->mark == VL2_MARK_RELEASE_OUT) {
		add(VL2_RELEASED, 1);
		skb->mark = 0;
	}
	return send(skb, s, p, peer, group);
}

/* To the multicast address of the sender's service (VL2, section 4.2.3). One outer source a host: the fabric keeps a tree for each. */
slow_path int broadcast_out(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p,
			    const struct vl2_local *local)
{
	struct vl2_headers headers;
	__u8 *mac = headers.eth.h_dest;
	__u32 group;

	if (!s || !p || !local)
		return TC_ACT_SHOT;
	if (!local->multicast)
		return drop(VL2_BROADCAST_NO_GROUP);
	if (wire_length(skb, ETH_HLEN, p) > s->mtu - VL2_OUTER)
		return too_big(skb, &p->flow, s->mtu - VL2_OUTER);
	if (!take(VL2_BUCKET_BROADCAST, s->broadcast_per_second, s->broadcast_burst))
		return drop(VL2_BROADCAST_LIMITED);
	group = bpf_ntohl(local->multicast);
	mac[0] = 0x01;
	mac[1] = 0x00;
	mac[2] = 0x5e;
	mac[3] = group >> 16 & 0x7f;
	mac[4] = group >> 8;
	mac[5] = group;
	__builtin_memcpy(headers.eth.h_source, s->mac, ETH_ALEN);
	outer_header(&headers.ip[0], p->tos, p->length + VL2_OUTER, 0,
		     is_mapped(&p->flow.source) ? VL2_PROTO_IPV4 : VL2_PROTO_IPV6, s->la, local->multicast);
	if (!push(skb, &headers, VL2_OUTER))
		return drop(VL2_HEADER_FAILED);
	add(VL2_BROADCAST_SENT, 1);
	return TC_ACT_OK;
}

/* A lease is renewed at the ToR, as often as an address may broadcast. */
slow_path int relay_out(const struct vl2_settings *s)
{
	if (!s || !take(VL2_BUCKET_BROADCAST, s->broadcast_per_second, s->broadcast_burst))
		return drop(VL2_BROADCAST_LIMITED);
	add(VL2_DHCP_TO_RELAY, 1);
	return TC_ACT_OK;
}

always_inline int is_broadcast(const struct vl2_settings *s, const struct vl2_address *a)
{
	if (!is_mapped(a))
		return (a->word[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000);
	if (a->word[3] == 0xffffffff || is_multicast4(a->word[3]))
		return 1;
	return within(&s->aa4, a) && s->aa4.mask.word[3] != 0xffffffff && (a->word[3] | s->aa4.mask.word[3]) == 0xffffffff;
}

/* Membership of multicast groups is between the host and its router. */
always_inline int is_membership(struct __sk_buff *skb, const struct vl2_packet *p)
{
	__u32 type = ndp_type(skb, p);

	return p->flow.protocol == IPPROTO_IGMP || (type >= 130 && type <= 134) || type == 143;
}

/* Encapsulated by a program of this host, which is not its business: the agent would not have checked it. */
slow_path int tunnel_out(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p)
{
	struct vl2_address source = {};
	enum vl2_inner found;

	if (!s || !p)
		return TC_ACT_SHOT;
	found = inner_packet(skb, s, p, &source);
	if (found == VL2_INNER_AA && skb->mark == VL2_MARK_PROBE && bpf_map_lookup_elem(&locals, &source)) {
		skb->mark = 0;
		return TC_ACT_OK;
	}
	if (found == VL2_INNER_AA || found == VL2_INNER_TOO_DEEP)
		return drop(VL2_FORGED_TUNNEL);
	add(VL2_UNTOUCHED, 1);
	return TC_ACT_OK;
}

always_inline int ip_out(struct __sk_buff *skb, const struct vl2_settings *s, __u32 version)
{
	struct vl2_local *local;
	struct vl2_packet p;
	__u32 type;
	int right = parse(skb, ETH_HLEN, version, &p), from, to, all;

	from = is_aa(s, &p.flow.source);
	to = is_aa(s, &p.flow.destination);
	all = is_broadcast(s, &p.flow.destination);
	type = right && version == 6 ? ndp_type(skb, &p) : 0;
	if (type == VL2_SOLICITATION || type == VL2_ADVERTISEMENT)
		return ndp_out(skb, s, &p.flow, type);
	if (!to && !from && version == 4 && is_tunnel(&p))
		return tunnel_out(skb, s, &p);
	if (!to && (!from || is_membership(skb, &p))) {
		if (right && p.flow.protocol == IPPROTO_UDP && s->flags & VL2_LOCATOR_RULES)
			expect_answer(&p.flow);
		add(VL2_UNTOUCHED, 1);
		return TC_ACT_OK;
	}
	if (!right)
		return drop(VL2_MALFORMED);
	local = bpf_map_lookup_elem(&locals, &p.flow.source);
	if (!local)
		return drop(VL2_FORGED_SOURCE);
	if (all)
		return broadcast_out(skb, s, &p, local);
	if (to)
		return unicast_out(skb, s, &p, local->service);
	return is_to_relay(&p, s->tor) ? relay_out(s) : drop(VL2_PLAIN);
}

SEC("tc")
int vl2_out(struct __sk_buff *skb)
{
	const struct vl2_settings *s = get_settings();
	void *data = (void *)(long)skb->data;
	__be16 type;

	if (!s)
		return TC_ACT_OK;
	if (skb->mark == VL2_MARK_TO_STACK) {
		add(VL2_INJECTED, 1);
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	}
	if (skb->mark == VL2_MARK_RELEASE_IN)
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	/* The frame's own word: skb->protocol is what a packet socket's owner says it is. */
	if (data + ETH_HLEN <= (void *)(long)skb->data_end)
		type = ((struct ethhdr *)data)->h_proto;
	else if (bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_proto), &type, sizeof(type)))
		return TC_ACT_OK;
	/* One call: each has its packet on the stack. */
	if (type == bpf_htons(ETH_P_IP) || type == bpf_htons(ETH_P_IPV6))
		return ip_out(skb, s, type == bpf_htons(ETH_P_IP) ? 4 : 6);
	if (type == bpf_htons(ETH_P_ARP))
		return arp_out(skb, s);
	return TC_ACT_OK;
}

/* Whether a service of this host takes packets from this AA; if not, what becomes of this one. */
always_inline int accept(struct __sk_buff *skb, const struct vl2_flow *flow, __u32 service, int released)
{
	struct vl2_peer *peer = find_peer(&flow->source, service);

	if (!peer)
		return released ? drop(VL2_RELEASED_LATE) : hand_over(skb, VL2_EVENT_MISS_IN, flow, VL2_MISS_IN);
	if (peer->state != VL2_KNOWN)
		return drop(peer->state == VL2_FORBIDDEN ? VL2_IN_FORBIDDEN : VL2_IN_UNKNOWN);
	if (!peer->used)
		peer->used = 1;
	if (released)
		add(VL2_RELEASED, 1);
	add(VL2_DELIVERED, 1);
	add(VL2_DELIVERED_BYTES, skb->len);
	return TC_ACT_OK;
}

/* An inner packet without outer headers: from the ToR, or held and released. */
always_inline int plain_in(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *p, int released)
{
	const struct vl2_local *local;

	if (!released && s->flags & VL2_LOCATOR_HOST)
		return drop(VL2_PLAIN);
	if (!is_aa(s, &p->flow.source)) {
		if (!is_from_relay(p, s->tor) || !bpf_map_lookup_elem(&locals, &p->flow.destination))
			return drop(VL2_PLAIN);
		add(VL2_DHCP_FROM_RELAY, 1);
		return TC_ACT_OK;
	}
	if (bpf_map_lookup_elem(&locals, &p->flow.source))
		return drop(VL2_FORGED_SOURCE);
	if (released && is_broadcast(s, &p->flow.destination)) {
		bpf_skb_change_type(skb, 1);
		return accept(skb, &p->flow, s->service, released);
	}
	local = bpf_map_lookup_elem(&locals, &p->flow.destination);
	if (!local)
		return drop(VL2_NOT_LOCAL);
	return accept(skb, &p->flow, local->service, released);
}

/* An encapsulated packet for this host, as locator (`group` is NULL) or as member of the multicast group of a service. */
always_inline int encapsulated_in(struct __sk_buff *skb, const struct vl2_settings *s, const struct vl2_packet *outer, const __u32 *group)
{
	const struct vl2_local *local;
	__u32 service = group ? *group : 0;
	int all = group != NULL;
	__u32 version = outer->flow.protocol == VL2_PROTO_IPV4 ? 4 : 6, reason;
	struct vl2_packet p;
	int right;

	if (outer->part != VL2_WHOLE)
		return drop(VL2_OUTER_FRAGMENT);
	if (outer->transport != VL2_OUTER)
		return drop(VL2_MALFORMED);
	right = parse(skb, ETH_HLEN + VL2_OUTER, version, &p);
	/* Another tunnel of this host. */
	if (!all && !is_aa(s, &p.flow.destination))
		return locator_in(skb, s, outer, 1);
	if (!right || !is_aa(s, &p.flow.source) || all != is_broadcast(s, &p.flow.destination))
		return drop(VL2_MALFORMED);
	if (bpf_map_lookup_elem(&locals, &p.flow.source))
		return drop(all ? VL2_BROADCAST_ECHO : VL2_FORGED_SOURCE);
	if (!all) {
		local = bpf_map_lookup_elem(&locals, &p.flow.destination);
		if (!local)
			return not_local(skb, s, &p.flow, &outer->flow);
		service = local->service;
	}
	reason = strip(skb, outer->tos, version);
	if (reason)
		return drop(reason);
	if (all)
		bpf_skb_change_type(skb, 1);
	add(all ? VL2_BROADCAST_RECEIVED : VL2_STRIPPED_HOST, 1);
	return accept(skb, &p.flow, service, 0);
}

always_inline int is_icmp_error(struct __sk_buff *skb, const struct vl2_packet *p)
{
	__u8 type = 0;

	if (p->flow.protocol != IPPROTO_ICMP || p->part != VL2_WHOLE ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + p->transport, &type, sizeof(type)))
		return 0;
	return type == 3 || type == 11 || type == 12;
}

/* What the fabric answers to an outer source. */
slow_path int entropy_in(struct __sk_buff *skb, const struct vl2_packet *p)
{
	struct vl2_scratch *place;

	if (!p || !is_icmp_error(skb, p) || !take(VL2_BUCKET_ICMP, 1000, 100))
		return drop(VL2_ENTROPY_TARGET);
	place = begin(VL2_EVENT_ICMP, &p->flow);
	if (!place || !report(skb, place, VL2_HELD_MAX))
		return drop(VL2_EVENTS_FULL);
	return consume(VL2_ICMP_ERRORS);
}

always_inline int ip_in(struct __sk_buff *skb, const struct vl2_settings *s, __u32 version, int released)
{
	struct vl2_packet p;
	int right = parse(skb, ETH_HLEN, version, &p);
	__be32 to = p.flow.destination.word[3];
	const __u32 *group;

	if (is_aa(s, &p.flow.source) || is_aa(s, &p.flow.destination)) {
		if (!right)
			return drop(VL2_MALFORMED);
		if (version == 6 && ndp_foreign(skb, s, &p))
			return drop(VL2_FOREIGN_RESOLUTION);
		return plain_in(skb, s, &p, released);
	}
	if (version == 4 && right) {
		if (p.flow.protocol == VL2_PROTO_IPV4 || p.flow.protocol == VL2_PROTO_IPV6) {
			if (to == s->la && s->flags & VL2_LOCATOR_HOST)
				return encapsulated_in(skb, s, &p, NULL);
			group = is_multicast4(to) ? bpf_map_lookup_elem(&multicasts, &to) : NULL;
			if (group)
				return encapsulated_in(skb, s, &p, group);
		}
		if ((to & s->entropy_mask) == s->entropy)
			return entropy_in(skb, &p);
	}
	if (version == 6 && right && ndp_foreign(skb, s, &p))
		return drop(VL2_FOREIGN_RESOLUTION);
	return locator_in(skb, s, &p, right);
}

SEC("tc")
int vl2_in(struct __sk_buff *skb)
{
	const struct vl2_settings *s = get_settings();
	int released = skb->mark == VL2_MARK_RELEASE_IN;

	if (!s)
		return TC_ACT_OK;
	if (skb->mark == VL2_MARK_TO_STACK) {
		skb->mark = 0;
		return TC_ACT_OK;
	}
	if (released)
		skb->mark = 0;
	if (skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6))
		return ip_in(skb, s, skb->protocol == bpf_htons(ETH_P_IP) ? 4 : 6, released);
	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return arp_in(skb, s);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
