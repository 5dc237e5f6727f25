/* A NetLord agent's half in the kernel (section 3.8): the ingress hooks of VMs' interfaces, and of the interfaces to the fabric.
 *
 *   from a VM:        source? control? --> a VIF here | [switch, switch][tag][IPv4 space -> p.tenant][frame] to the fabric | the agent
 *   from the fabric:  [own MAC, switch][IPv4 space -> p.tenant][frame] --> the VIF of that tenant, MAC space and MAC address | the agent
 *
 * Whatever the tables cannot decide goes to the agent, whole; a VM's frame never reaches this server's own stack.
 */
#include "budget.h"

#include "../arp.h"

/* Ethernet, aligned so that the IPv4 header is too. */
struct netlord_headers {
	__be16 gap;
	struct ethhdr eth;
	struct iphdr ip;
};

slow_path long send_event(const struct netlord_event *event)
{
	return event ? bpf_ringbuf_output(&events, (void *)event, sizeof(*event), 0) : -1;
}

/* Reports of use and life of a path, no more often than the agent needs them (section 3.4). */
slow_path void report_path(const struct netlord_path *path, enum netlord_event_kind kind, __u32 port)
{
	struct netlord_reported fresh = {};
	struct netlord_reported *last;
	struct netlord_event event = {};
	const struct netlord_host_settings *s;
	__u64 now = bpf_ktime_get_ns(), *at;
	__u32 zero = 0;

	s = bpf_map_lookup_elem(&settings, &zero);
	if (!s || !path)
		return;
	last = bpf_map_lookup_elem(&reported, path);
	if (!last) {
		bpf_map_update_elem(&reported, path, &fresh, BPF_NOEXIST);
		last = bpf_map_lookup_elem(&reported, path);
		if (!last)
			return;
	}
	at = kind == NETLORD_EVENT_SENT ? &last->sent_ns : &last->heard_ns;
	if (*at && since(now, *at) < s->report_ns)
		return;
	event.kind = kind;
	event.path = *path;
	event.port = port;
	if (!send_event(&event))
		*at = now;
}

always_inline int is_control(__be16 type, const __u8 *dst)
{
	return type == bpf_htons(NETLORD_TYPE_HERE) || type == bpf_htons(NETLORD_TYPE_NOT_HERE) ||
	       type == bpf_htons(NETLORD_TYPE_LLDP) || is_reserved(dst);
}

/* The VLAN of a flow from an interface: the one with the highest hash of both. 0: there is none. */
slow_path __u32 choose(__u32 uplink, const __u8 *switch_mac, __u64 flow)
{
	struct netlord_reached key = { .uplink = uplink };
	const struct netlord_paths *all;
	__u64 best = 0;
	__u32 vlan = 0;

	if (!switch_mac)
		return 0;
	__builtin_memcpy(key.switch_mac, switch_mac, ETH_ALEN);
	all = bpf_map_lookup_elem(&paths, &key);
	if (!all)
		return 0;
	for (__u32 i = 0; i < NETLORD_PATHS_MAX; i++) {
		__u64 hash;

		if (i >= all->count)
			break;
		hash = mix(flow ^ all->path[i].hash);
		if (hash > best || (hash == best && all->path[i].vlan > vlan)) {
			best = hash;
			vlan = all->path[i].vlan;
		}
	}
	return vlan;
}

/* Bytes of the largest frame that it is sent as: of one of its segments, if it is several. */
always_inline __u32 wire_length(struct __sk_buff *skb, const struct netlord_packet *p)
{
	__u32 tag = skb->vlan_present ? 4 : 0, header = 8;
	__u8 words;

	if (!skb->gso_size)
		return skb->len + tag;
	if (p->protocol == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, p->transport + 12, &words, sizeof(words)))
			return skb->len + tag;
		header = (words >> 4) * 4;
	}
	return p->transport + header + skb->gso_size + tag;
}

always_inline void outer_headers(struct netlord_headers *h, const struct netlord_uplink *u, const struct netlord_place *to,
				 const struct netlord_name *name, __u32 vlan, __u32 inner)
{
	__u32 length = inner + NETLORD_IP;

	__builtin_memset(h, 0, sizeof(*h));
	__builtin_memcpy(h->eth.h_dest, to->switch_mac, ETH_ALEN);
	__builtin_memcpy(h->eth.h_source, vlan ? u->switch_mac : u->mac, ETH_ALEN);
	h->eth.h_proto = bpf_htons(ETH_P_IP);
	h->ip.version = 4;
	h->ip.ihl = 5;
	/* Longer than it can say only if it is many segments. */
	h->ip.tot_len = length > 0xffff ? 0 : bpf_htons(length);
	h->ip.id = bpf_htons(vlan);
	h->ip.frag_off = bpf_htons(0x4000);
	h->ip.ttl = NETLORD_TTL;
	h->ip.protocol = NETLORD_PROTOCOL;
	h->ip.saddr = name->space;
	h->ip.daddr = name->tenant | bpf_htonl((__u32)to->port << 24);
	h->ip.check = header_sum(&h->ip);
}

/* Whether the fabric carries it encapsulated; also if its interface is not there, of which `encapsulate` has more to say. */
always_inline int fits(struct __sk_buff *skb, const struct netlord_vif *vif, const struct netlord_packet *p)
{
	__u32 index = vif->uplink;
	const struct netlord_uplink *u = bpf_map_lookup_elem(&uplinks, &index);

	return !u || wire_length(skb, p) + NETLORD_IP <= u->mtu;
}

/* To a server (section 3.5). `macs` are those of the inner frame. */
always_inline int encapsulate(struct __sk_buff *skb, const struct netlord_vif *vif, const struct netlord_name *name,
			      const struct netlord_place *to, const struct netlord_packet *p, const __u8 *macs, int is_routed)
{
	__u32 index = vif->uplink, vlan = 0, inner = skb->len + (skb->vlan_present ? 4 : 0);
	const struct netlord_uplink *u = bpf_map_lookup_elem(&uplinks, &index);
	struct netlord_headers headers;

	if (!u || !u->port)
		return drop(NETLORD_NO_UPLINK);
	if (is_same_mac(to->switch_mac, u->switch_mac)) {
		/* To this very server, where it is not, or with a tag of the VM's own, which would be taken for the fabric's. */
		if (to->port == u->port || skb->vlan_present)
			return is_routed ? drop(NETLORD_NO_PATH) : vif_to_agent(skb);
	} else {
		vlan = choose(index, to->switch_mac, hash_flow(p, name->tenant, macs));
		if (!vlan)
			return drop(NETLORD_NO_PATH);
	}
	if (wire_length(skb, p) + NETLORD_IP > u->mtu)
		return drop(NETLORD_TOO_LONG);
	add(NETLORD_SENT_BYTES, skb->len);
	/* A tag of the VM's own goes into the frame then. */
	if (vlan && bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), vlan))
		return drop(NETLORD_HEADER_FAILED);
	outer_headers(&headers, u, to, name, vlan, inner);
	if (bpf_skb_change_head(skb, NETLORD_HEADERS, 0) ||
	    bpf_skb_store_bytes(skb, 0, &headers.eth, NETLORD_HEADERS, BPF_F_INVALIDATE_HASH))
		return drop(NETLORD_HEADER_FAILED);
	add(NETLORD_SENT, 1);
	if (vlan) {
		struct netlord_path path = { .uplink = index, .vlan = vlan };

		__builtin_memcpy(path.switch_mac, to->switch_mac, ETH_ALEN);
		report_path(&path, NETLORD_EVENT_SENT, to->port);
	} else {
		add(NETLORD_SENT_SAME_SWITCH, 1);
	}
	return bpf_redirect(index, 0);
}

/* ARP and neighbour discovery are the agent's, but for checks among VMs that know each other. */
always_inline int is_neighbour(struct __sk_buff *skb, __be16 type, const struct netlord_packet *p)
{
	__u8 kind;

	if (type == bpf_htons(ETH_P_ARP))
		return 1;
	if (p->version != 6 || p->protocol != NETLORD_ICMPV6 || bpf_skb_load_bytes(skb, p->transport, &kind, sizeof(kind)))
		return 0;
	return kind >= 133 && kind <= 137;
}

/* Everybody in the public space has the addresses that he was given. */
always_inline int is_owned(__u32 ifindex, const struct netlord_packet *p)
{
	struct netlord_owned key = { .ifindex = ifindex };

	if (!p->version)
		return 0;
	__builtin_memcpy(key.address, p->source, sizeof(key.address));
	return bpf_map_lookup_elem(&owned, &key) != NULL;
}

#define NETLORD_SOLICITATION 135
#define NETLORD_ADVERTISEMENT 136

/* Whether a VM that knows another one checks that it is still there, or answers such a check: to one VM, and about an address that the agent knows as the sender's.
 * Only so can VMs keep their neighbours while no agent runs.
 */
verified_alone int is_neighbour_check(struct __sk_buff *skb, const struct netlord_packet *p, __be16 type)
{
	struct netlord_owned key = { .ifindex = skb->ifindex };
	__u8 kind;

	if (!p)
		return 0;
	if (type == bpf_htons(ETH_P_ARP)) {
		struct arp arp;
		__u8 source[ETH_ALEN];
		__be32 sender;

		if (!arp_load(skb, &arp) || bpf_skb_load_bytes(skb, ETH_ALEN, source, sizeof(source)))
			return 0;
		if ((arp.operation != bpf_htons(ARP_REQUEST) && arp.operation != bpf_htons(ARP_REPLY)) || !is_same_mac(arp.sender_mac, source))
			return 0;
		__builtin_memcpy(&sender, arp.sender, sizeof(sender));
		put_mapped(key.address, sender);
	} else {
		if (bpf_skb_load_bytes(skb, p->transport, &kind, sizeof(kind)))
			return 0;
		if (kind == NETLORD_SOLICITATION)
			__builtin_memcpy(key.address, p->source, sizeof(key.address));
		else if (kind != NETLORD_ADVERTISEMENT || bpf_skb_load_bytes(skb, p->transport + 8, key.address, sizeof(key.address)))
			return 0;
	}
	return bpf_map_lookup_elem(&owned, &key) != NULL;
}

/* What the virtual router that the frame is to did with one like it (section 3.2). */
always_inline const struct netlord_route *find_route(struct __sk_buff *skb, const struct netlord_packet *p, const __u8 *dst)
{
	struct netlord_route_key key = { .ifindex = skb->ifindex, .protocol = p->protocol };
	const struct netlord_route *found;

	/* The agent remembers what was decided about a datagram's first fragment. */
	if (!p->version || p->is_part || p->ttl <= 1 || skb->vlan_present)
		return NULL;
	__builtin_memcpy(key.router, dst, ETH_ALEN);
	__builtin_memcpy(key.source, p->source, sizeof(key.source));
	__builtin_memcpy(key.destination, p->destination, sizeof(key.destination));
	key.port = p->has_ports ? p->ports[1] : 0;
	found = bpf_map_lookup_elem(&routed, &key);
	return found && found->until_ns > bpf_ktime_get_ns() ? found : NULL;
}

/* What the router would do: its MAC address and the next one's, and one off the time to live. */
always_inline int step(struct __sk_buff *skb, const struct netlord_packet *p, const struct netlord_route *route)
{
	__u8 macs[2 * ETH_ALEN];

	__builtin_memcpy(macs, route->mac, ETH_ALEN);
	__builtin_memcpy(macs + ETH_ALEN, route->source, ETH_ALEN);
	if (bpf_skb_store_bytes(skb, 0, macs, sizeof(macs), 0))
		return 0;
	if (p->version == 4) {
		__be16 old = bpf_htons((__u16)p->ttl << 8 | p->protocol), new = bpf_htons((__u16)(p->ttl - 1) << 8 | p->protocol);

		return !bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old, new, 2) &&
		       !bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), &new, sizeof(new), 0);
	} else {
		__u8 ttl = p->ttl - 1;

		return !bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, hop_limit), &ttl, sizeof(ttl), 0);
	}
}

SEC("tc")
int netlord_vif(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	const struct netlord_vif *vif = bpf_map_lookup_elem(&vifs, &ifindex);
	const struct netlord_place *place;
	const struct netlord_route *route;
	struct netlord_route copy = {};
	struct netlord_name name = {};
	struct netlord_packet p = {};
	const __u32 *local;
	__u8 header[ETH_HLEN];
	__be16 type;
	int neighbour;

	/* A VIF that is not attached yet, or no longer. */
	if (!vif)
		return drop(NETLORD_NO_UPLINK);
	if (bpf_skb_load_bytes(skb, 0, header, sizeof(header)))
		return vif_to_agent(skb);
	type = *(__be16 *)(header + 2 * ETH_ALEN);
	if (!is_same_mac(header + ETH_ALEN, vif->mac))
		return drop(NETLORD_SPOOFED_MAC);
	if (is_control(type, header))
		return drop(NETLORD_CONTROL);
	read_packet(skb, type, &p);
	/* Behind a tag in the frame no kernel finds the segments again: the agent cuts them. */
	if (skb->vlan_present && skb->gso_size)
		return vif_to_agent(skb);
	neighbour = !skb->vlan_present && is_neighbour(skb, type, &p);
	if (is_group(header) ||
	    (neighbour && (vif->tenant == bpf_htonl(NETLORD_PUBLIC) || !is_neighbour_check(skb, &p, type))) ||
	    (vif->tenant == bpf_htonl(NETLORD_PUBLIC) && (skb->vlan_present || !is_owned(ifindex, &p))))
		return vif_to_agent(skb);
	name.tenant = vif->tenant;
	name.space = vif->space;
	route = neighbour ? NULL : find_route(skb, &p, header);
	if (route) {
		copy = *route;
		name.space = copy.space;
		__builtin_memcpy(header, copy.mac, ETH_ALEN);
		__builtin_memcpy(header + ETH_ALEN, copy.source, ETH_ALEN);
	}
	__builtin_memcpy(name.mac, header, ETH_ALEN);
	local = bpf_map_lookup_elem(&locals, &name);
	place = local ? NULL : bpf_map_lookup_elem(&remotes, &name);
	if ((!local && !place) || (local && *local == ifindex && !route))
		return vif_to_agent(skb);
	/* The router in the agent reports that it does not fit. */
	if (route && place && !fits(skb, vif, &p))
		return vif_to_agent(skb);
	if (route) {
		if (!step(skb, &p, &copy))
			return drop(NETLORD_HEADER_FAILED);
		add(NETLORD_ROUTED, 1);
	}
	if (local) {
		add(NETLORD_LOCAL, 1);
		return bpf_redirect(*local, 0);
	}
	return encapsulate(skb, vif, &name, place, &p, header, route != NULL);
}

/* The inner frame, as far as it is read. */
struct netlord_inner {
	__u8 macs[2 * ETH_ALEN];
	__be16 type;
};

/* BPF_F_ADJ_ROOM_DECAP_L3_IPV6, of Linux 6.3; older headers do not have it. */
#define NETLORD_DECAP_IPV6 (1ull << 8)

/* The inner frame takes the place of the encapsulation. Returns 0, or the counter of the reason why not. */
always_inline __u32 strip(struct __sk_buff *skb, const struct netlord_inner *inner, __u32 total)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;

	/* The kernel looks at a packet of many segments again, as what it believes it to be. */
	if (inner->type == bpf_htons(ETH_P_IPV6))
		flags |= NETLORD_DECAP_IPV6;
	/* Padding of the outer frame is none of the inner one's. */
	if (!skb->gso_size && skb->len > ETH_HLEN + total && bpf_skb_change_tail(skb, ETH_HLEN + total, 0))
		return NETLORD_HEADER_FAILED;
	if (skb->vlan_present && bpf_skb_vlan_pop(skb))
		return NETLORD_HEADER_FAILED;
	if (bpf_skb_adjust_room(skb, -NETLORD_HEADERS, BPF_ADJ_ROOM_MAC, flags) ||
	    bpf_skb_store_bytes(skb, 0, inner, ETH_HLEN, BPF_F_INVALIDATE_HASH))
		return NETLORD_HEADER_FAILED;
	return 0;
}

/* Whether an agent would have sent this header. */
always_inline int is_sound(struct __sk_buff *skb, const struct iphdr *ip)
{
	__u32 total = bpf_ntohs(ip->tot_len), space = bpf_ntohl(ip->saddr);

	if (ip->version != 4 || ip->ihl != 5 || header_sum(ip) || ip->frag_off != bpf_htons(0x4000) || !ip->ttl)
		return 0;
	if (bpf_ntohs(ip->id) > 4094 || !space || space > NETLORD_LAST_SPACE || !(ip->daddr & bpf_htonl(0xffffff)))
		return 0;
	/* A packet of several segments may be larger than its header can say. */
	if (skb->gso_size)
		return 1;
	return total >= NETLORD_HEADERS && total + ETH_HLEN <= skb->len;
}

/* The path that a frame came by works, if its sender is known here. */
always_inline void heard(__u32 uplink, const struct netlord_name *to, const __u8 *source, __u16 vlan)
{
	struct netlord_name from = { .tenant = to->tenant, .space = to->space };
	const struct netlord_place *place;
	struct netlord_path path = { .uplink = uplink, .vlan = vlan };

	__builtin_memcpy(from.mac, source, ETH_ALEN);
	place = bpf_map_lookup_elem(&remotes, &from);
	if (!place)
		return;
	__builtin_memcpy(path.switch_mac, place->switch_mac, ETH_ALEN);
	report_path(&path, NETLORD_EVENT_HEARD, place->port);
}

/* From an agent to this one. */
always_inline int decapsulate(struct __sk_buff *skb, const struct netlord_uplink *u, const __u8 *dst, const struct iphdr *ip)
{
	struct netlord_name name = { .tenant = ip->daddr & bpf_htonl(0xffffff), .space = ip->saddr };
	__u8 port = bpf_ntohl(ip->daddr) >> 24;
	struct netlord_inner inner;
	const __u32 *local;
	__be16 type;
	__u32 reason;

	if (!is_sound(skb, ip))
		return drop(NETLORD_BAD_ENCAPSULATION);
	if (port == NETLORD_GROUP)
		return group_to_agent(skb, &name);
	if (port != u->port || !is_same_mac(dst, u->mac))
		return drop(NETLORD_NOT_MINE);
	if (bpf_skb_load_bytes(skb, NETLORD_HEADERS, &inner, ETH_HLEN))
		return drop(NETLORD_BAD_ENCAPSULATION);
	type = inner.type;
	if (type == bpf_htons(ETH_P_8021Q) && bpf_skb_load_bytes(skb, NETLORD_HEADERS + ETH_HLEN + 2, &type, sizeof(type)))
		return drop(NETLORD_FORGED);
	if (name.tenant == bpf_htonl(NETLORD_PROVIDER) &&
	    (type == bpf_htons(NETLORD_TYPE_HERE) || type == bpf_htons(NETLORD_TYPE_NOT_HERE)))
		return to_agent(skb, NETLORD_EVENT_UPLINK, NETLORD_CONTROL_IN);
	if (is_control(type, inner.macs) || is_group(inner.macs) || is_zero_mac(inner.macs))
		return drop(NETLORD_FORGED);
	__builtin_memcpy(name.mac, inner.macs, ETH_ALEN);
	local = bpf_map_lookup_elem(&locals, &name);
	if (!local)
		return misdelivered(skb, space_budget(&name));
	/* The kernel takes no header off a packet that would be left with less than another. */
	if (skb->len < ETH_HLEN + NETLORD_HEADERS + (inner.type == bpf_htons(ETH_P_IPV6) ? sizeof(struct ipv6hdr) : NETLORD_IP))
		return space_to_agent(skb, space_budget(&name));
	if (ip->id)
		heard(skb->ifindex, &name, inner.macs + ETH_ALEN, bpf_ntohs(ip->id));
	add(NETLORD_RECEIVED_BYTES, skb->len - NETLORD_HEADERS);
	reason = strip(skb, &inner, bpf_ntohs(ip->tot_len));
	if (reason)
		return drop(reason);
	add(NETLORD_RECEIVED, 1);
	return bpf_redirect(*local, 0);
}

/* Whether the switch asks for p.0.0.1 (section 3.7). */
always_inline int is_own_arp(struct __sk_buff *skb, const struct netlord_uplink *u)
{
	__be32 target;

	if (bpf_skb_load_bytes(skb, ETH_HLEN + 24, &target, sizeof(target)))
		return 0;
	return u->port && target == bpf_htonl((__u32)u->port << 24 | 1);
}

/* Whether it is an answer to a DHCP client: the agent is one (section 3.7), and so may be the server itself. */
always_inline int is_dhcp_reply(struct __sk_buff *skb, const struct iphdr *ip)
{
	__be16 to;

	if (ip->protocol != IPPROTO_UDP || ip->version != 4 || ip->ihl < 5 || ip->frag_off & bpf_htons(0x1fff) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + ip->ihl * 4 + 2, &to, sizeof(to)))
		return 0;
	return to == bpf_htons(NETLORD_DHCP_CLIENT);
}

SEC("tc")
int netlord_uplink(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	const struct netlord_uplink *u = bpf_map_lookup_elem(&uplinks, &ifindex);
	__u8 header[ETH_HLEN];
	struct iphdr ip;
	__be16 type;

	if (!u || bpf_skb_load_bytes(skb, 0, header, sizeof(header)))
		return TC_ACT_OK;
	type = *(__be16 *)(header + 2 * ETH_ALEN);
	if (type == bpf_htons(NETLORD_TYPE_LLDP) || type == bpf_htons(NETLORD_TYPE_HERE))
		return to_agent(skb, NETLORD_EVENT_UPLINK, NETLORD_CONTROL_IN);
	if (type == bpf_htons(ETH_P_ARP) && is_own_arp(skb, u))
		return to_agent(skb, NETLORD_EVENT_UPLINK, NETLORD_CONTROL_IN);
	if (type == bpf_htons(ETH_P_IP) && !bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip))) {
		if (ip.protocol == NETLORD_PROTOCOL)
			return decapsulate(skb, u, header, &ip);
		if (is_dhcp_reply(skb, &ip) && !report_frame(skb, NETLORD_EVENT_UPLINK))
			add(NETLORD_EVENTS_FULL, 1);
	}
	/* The server's own, outside of NetLord. */
	add(NETLORD_PLAIN, 1);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
