/* A switch of NetLord's fabric: a VLAN-aware learning bridge on the ingress hook of every port, and on an edge switch the last hop by IP (sections 3.3, 3.6).
 *
 *   to others:  learn (source, VLAN) -> port;  (destination, VLAN) known -> that port, else all ports of the VLAN
 *   to itself:  [Ethernet][tag][IPv4 -> p.t.t.t] -- longest prefix --> port p: [server's MAC, own MAC][IPv4, TTL - 1]
 *
 * Its table of addresses holds so many entries and no more: the one that was silent longest is evicted first. Finding it takes a walk over the table, so learning can be
 * limited to so many a second, as switches do.
 */
#include "layout.h"
#define NETLORD_COUNTERS NETLORD_SWITCH_COUNTERS
#define COUNTER netlord_switch_counter
#include "maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netlord_switch_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct netlord_port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct netlord_vlan);
} vlans SEC(".maps");

/* Who is in which VLAN: a port's index and a VLAN. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, __u64);
	__type(value, __u8);
} members SEC(".maps");

/* The table of learned addresses; its size is the switch's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct netlord_fib_key);
	__type(value, struct netlord_fib_entry);
} fib SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 256);
	__type(key, struct netlord_prefix);
	__type(value, struct netlord_hop);
} routes SEC(".maps");

/* By tenant. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __be32);
	__type(value, struct netlord_limit);
} limits SEC(".maps");

/* Of a tenant's rate, the bytes per second that may pass here, where edge switches hold it together. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __be32);
	__type(value, __u64);
} shares SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __be32);
	__type(value, struct netlord_tenant);
} tenants SEC(".maps");

/* A frame, as far as a switch reads it. */
struct netlord_frame {
	__u8 dst[ETH_ALEN];
	__u8 src[ETH_ALEN];
	__be16 type;
	__u16 vlan;
};

struct netlord_oldest {
	struct netlord_fib_key key;
	__u64 seen_ns;
};

struct bpf_map;

static long older(struct bpf_map *map, const void *key, void *value, void *context)
{
	const struct netlord_fib_entry *entry = value;
	struct netlord_oldest *oldest = context;

	if (entry->seen_ns < oldest->seen_ns) {
		oldest->seen_ns = entry->seen_ns;
		__builtin_memcpy(&oldest->key, key, sizeof(oldest->key));
	}
	return 0;
}

/* A new address: whether it is learnt. If the table is full, the one that was silent longest makes room. */
verified_alone int learn_new(const struct netlord_switch_settings *s, const struct netlord_fib_key *key, __u32 ifindex)
{
	struct netlord_fib_entry entry = { .ifindex = ifindex };
	struct netlord_oldest oldest = {};

	if (!s || !key)
		return 0;
	if (s->learn_per_second && !take(s->learn_per_second, s->learn_burst)) {
		add(NETLORD_LEARN_LIMITED, 1);
		return 0;
	}
	entry.seen_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&fib, key, &entry, BPF_ANY)) {
		oldest.seen_ns = ~0ull;
		bpf_for_each_map_elem(&fib, older, &oldest, 0);
		if (oldest.seen_ns == ~0ull || bpf_map_delete_elem(&fib, &oldest.key))
			return 0;
		add(NETLORD_EVICTED, 1);
		if (bpf_map_update_elem(&fib, key, &entry, BPF_ANY))
			return 0;
	}
	add(NETLORD_LEARNED, 1);
	return 1;
}

always_inline void learn(const struct netlord_switch_settings *s, const struct netlord_frame *f, __u32 ifindex)
{
	struct netlord_fib_key key = { .vlan = f->vlan };
	struct netlord_fib_entry *entry;

	/* Agents send with their edge switch's address, which is no host's. */
	if (is_same_mac(f->src, s->mac))
		return;
	__builtin_memcpy(key.mac, f->src, ETH_ALEN);
	entry = bpf_map_lookup_elem(&fib, &key);
	if (!entry) {
		learn_new(s, &key, ifindex);
		return;
	}
	entry->seen_ns = bpf_ktime_get_ns();
	if (entry->ifindex != ifindex) {
		entry->ifindex = ifindex;
		add(NETLORD_MOVED, 1);
	}
}

/* The port of an address; 0: not known. */
always_inline __u32 find(const struct netlord_switch_settings *s, const struct netlord_frame *f)
{
	struct netlord_fib_key key = { .vlan = f->vlan };
	struct netlord_fib_entry *entry;

	__builtin_memcpy(key.mac, f->dst, ETH_ALEN);
	entry = bpf_map_lookup_elem(&fib, &key);
	if (!entry)
		return 0;
	if (since(bpf_ktime_get_ns(), entry->seen_ns) > s->ageing_ns) {
		bpf_map_delete_elem(&fib, &key);
		add(NETLORD_AGED, 1);
		return 0;
	}
	return entry->ifindex;
}

always_inline int is_member(__u32 ifindex, __u16 vlan)
{
	__u64 key = (__u64)ifindex << 16 | vlan;

	return bpf_map_lookup_elem(&members, &key) != NULL;
}

/* The tag as the port wants it: none in its native VLAN, else the VLAN's. */
always_inline int retag(struct __sk_buff *skb, __u32 ifindex, __u16 vlan)
{
	struct netlord_port *port = bpf_map_lookup_elem(&ports, &ifindex);
	int is_native = port && port->native == vlan;

	if (is_native == !skb->vlan_present)
		return 1;
	return is_native ? !bpf_skb_vlan_pop(skb) : !bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), vlan);
}

/* Parts of a byte: billionths that a bucket is filled with in ten seconds at 100 Gbit/s would not fit 64 bits. */
#define NETLORD_MILLI 1000ull

/* Whether the tenant may send so many bytes now. */
always_inline int within_limit(struct netlord_limit *limit, __u64 bytes_per_second, __u32 bytes)
{
	__u64 now = bpf_ktime_get_ns(), passed_us, full, need = bytes * NETLORD_MILLI;
	int ok = 0;

	bpf_spin_lock(&limit->lock);
	full = limit->burst_bytes * NETLORD_MILLI;
	passed_us = since(now, limit->filled_ns) / 1000;
	if (passed_us > 10000000)
		passed_us = 10000000;
	if (passed_us) {
		limit->tokens += passed_us * bytes_per_second / 1000;
		limit->filled_ns = now;
	}
	if (limit->tokens > full)
		limit->tokens = full;
	if (limit->tokens >= need) {
		limit->tokens -= need;
		ok = 1;
	}
	bpf_spin_unlock(&limit->lock);
	return ok;
}

/* What the fabric's operator allows the tenant. Returns 0, or the counter of the reason why not. */
verified_alone __u32 admit(struct __sk_buff *skb, __be32 tenant)
{
	struct netlord_limit *limit = bpf_map_lookup_elem(&limits, &tenant);
	struct netlord_tenant *counts = bpf_map_lookup_elem(&tenants, &tenant);

	if (!counts) {
		struct netlord_tenant fresh = {};

		bpf_map_update_elem(&tenants, &tenant, &fresh, BPF_NOEXIST);
		counts = bpf_map_lookup_elem(&tenants, &tenant);
		if (!counts)
			return NETLORD_FAILED;
	}
	if (limit && limit->kind == NETLORD_DENY) {
		__sync_fetch_and_add(&counts->denied, 1);
		return NETLORD_DENIED;
	}
	if (limit && limit->bytes_per_second) {
		const __u64 *share = bpf_map_lookup_elem(&shares, &tenant);

		if (!within_limit(limit, share ? *share : limit->bytes_per_second, skb->len)) {
			__sync_fetch_and_add(&counts->limited, 1);
			return NETLORD_LIMITED;
		}
	}
	__sync_fetch_and_add(&counts->packets, 1);
	__sync_fetch_and_add(&counts->bytes, skb->len);
	return 0;
}

/* A frame that is flooded, group or not, is its tenant's if it is an encapsulation. It counts once, however many copies leave; one to another switch whose address is not
 * known here counts at its last hop again. Switches without an address have no limits.
 */
slow_path __u32 admit_flooded(struct __sk_buff *skb, const struct netlord_switch_settings *s)
{
	struct iphdr ip;
	__be32 tenant;

	if (!s || is_zero_mac(s->mac) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return 0;
	tenant = ip.daddr & bpf_htonl(0xffffff);
	if (ip.version != 4 || ip.protocol != NETLORD_PROTOCOL || !tenant)
		return 0;
	return admit(skb, tenant);
}

always_inline int is_server(__u32 ifindex)
{
	const struct netlord_port *port = bpf_map_lookup_elem(&ports, &ifindex);

	return port && port->is_server;
}

/* To all edge switches: 03:4e:4c:00:00:01. */
always_inline int is_claims(const __u8 *mac)
{
	return mac[0] == 0x03 && mac[1] == 0x4e && mac[2] == 0x4c && !mac[3] && !mac[4] && mac[5] == 0x01;
}

/* Whether a copy went to a port. */
verified_alone int copy_to(struct __sk_buff *skb, __u32 ifindex, __u16 vlan)
{
	return retag(skb, ifindex, vlan) && !bpf_clone_redirect(skb, ifindex, 0);
}

/* To all ports of the VLAN but the one that it came by: tagged ones and untagged ones. */
verified_alone int flood(struct __sk_buff *skb, const struct netlord_switch_settings *s, const struct netlord_frame *f)
{
	const struct netlord_vlan *all;
	__u32 key, copies = 0, reason;

	if (!s || !f)
		return TC_ACT_SHOT;
	key = f->vlan;
	all = bpf_map_lookup_elem(&vlans, &key);
	if (!all)
		return drop(NETLORD_NO_VLAN);
	reason = f->type == bpf_htons(ETH_P_IP) ? admit_flooded(skb, s) : 0;
	if (reason)
		return drop(reason);
	for (__u32 i = 0; i < NETLORD_VLAN_PORTS; i++) {
		__u32 to;

		if (i >= all->count)
			break;
		to = all->ifindex[i];
		if (to == skb->ingress_ifindex || to == skb->ifindex)
			continue;
		if (is_claims(f->dst) && is_server(to))
			continue;
		if (copy_to(skb, to, key))
			copies++;
	}
	add(NETLORD_FLOODED, 1);
	add(NETLORD_FLOODED_COPIES, copies);
	return TC_ACT_SHOT;
}

/* One off the time to live, and the checksum with it (RFC 1624). */
always_inline void age(struct iphdr *ip)
{
	__u32 sum = ip->check + bpf_htons(0x0100);

	ip->ttl--;
	ip->check = (__u16)(sum + (sum >= 0xffff));
}

/* To this switch's own address: the last hop, by the longest prefix. */
verified_alone int last_hop(struct __sk_buff *skb, const struct netlord_switch_settings *s)
{
	struct netlord_prefix key = { .length = 32 };
	const struct netlord_hop *hop;
	struct ethhdr eth;
	struct iphdr ip;
	__u32 reason;

	if (!s)
		return TC_ACT_SHOT;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl != 5 || header_sum(&ip))
		return drop(NETLORD_BAD_HEADER);
	if (ip.ttl <= 1)
		return drop(NETLORD_TTL_EXPIRED);
	key.address = ip.daddr;
	hop = bpf_map_lookup_elem(&routes, &key);
	if (!hop)
		return drop(NETLORD_NO_ROUTE);
	if (is_zero_mac(hop->mac)) {
		report_frame(skb, NETLORD_EVENT_ARP);
		return drop(NETLORD_NO_NEIGHBOUR);
	}
	reason = admit(skb, ip.daddr & bpf_htonl(0xffffff));
	if (reason)
		return drop(reason);
	age(&ip);
	__builtin_memcpy(eth.h_dest, hop->mac, ETH_ALEN);
	__builtin_memcpy(eth.h_source, s->mac, ETH_ALEN);
	eth.h_proto = bpf_htons(ETH_P_IP);
	if (skb->vlan_present && bpf_skb_vlan_pop(skb))
		return drop(NETLORD_FAILED);
	if (bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) || bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0))
		return drop(NETLORD_FAILED);
	add(NETLORD_LAST_HOP, 1);
	return bpf_redirect(hop->ifindex, 0);
}

/* ARP from a server or a neighbour to this switch. */
always_inline int is_arp_to(const struct netlord_switch_settings *s, const struct netlord_frame *f)
{
	return f->type == bpf_htons(ETH_P_ARP) && is_same_mac(f->dst, s->mac);
}

SEC("tc")
int netlord_port(struct __sk_buff *skb)
{
	__u32 zero = 0, ifindex = skb->ifindex, to;
	const struct netlord_switch_settings *s = bpf_map_lookup_elem(&settings, &zero);
	const struct netlord_port *port = bpf_map_lookup_elem(&ports, &ifindex);
	struct netlord_frame f = {};
	__u8 header[ETH_HLEN];

	if (!s || !port)
		return TC_ACT_OK;
	if (bpf_skb_load_bytes(skb, 0, header, sizeof(header)))
		return drop(NETLORD_BAD_HEADER);
	__builtin_memcpy(f.dst, header, ETH_ALEN);
	__builtin_memcpy(f.src, header + ETH_ALEN, ETH_ALEN);
	f.type = *(__be16 *)(header + 2 * ETH_ALEN);
	if (is_reserved(f.dst))
		return drop(NETLORD_RESERVED);
	if (is_group(f.src) || is_zero_mac(f.src))
		return drop(NETLORD_BAD_SOURCE);
	/* Those of other edge switches alone: a server could take a tenant's rate away. */
	if (is_claims(f.dst) && port->is_server)
		return drop(NETLORD_FORGED_CLAIMS);
	/* The switch's own work needs no VLAN: frames between two servers of one switch have none. */
	if (!is_zero_mac(s->mac) && is_same_mac(f.dst, s->mac)) {
		if (is_arp_to(s, &f)) {
			add(NETLORD_ARP, 1);
			return report_frame(skb, NETLORD_EVENT_ARP) ? TC_ACT_STOLEN : TC_ACT_SHOT;
		}
		if (f.type != bpf_htons(ETH_P_IP))
			return drop(NETLORD_BAD_HEADER);
		/* What comes over the fabric shows where its ingress switch is. */
		f.vlan = skb->vlan_present ? skb->vlan_tci & 0xfff : 0;
		if (f.vlan && is_member(ifindex, f.vlan))
			learn(s, &f, ifindex);
		else if (f.vlan)
			return drop(NETLORD_NOT_MEMBER);
		return last_hop(skb, s);
	}
	f.vlan = skb->vlan_present ? skb->vlan_tci & 0xfff : port->native;
	if (!f.vlan)
		return drop(NETLORD_NO_VLAN);
	if (!is_member(ifindex, f.vlan))
		return drop(NETLORD_NOT_MEMBER);
	if (is_claims(f.dst) && !is_zero_mac(s->mac) && report_frame(skb, NETLORD_EVENT_CLAIMS))
		add(NETLORD_CLAIMS, 1);
	learn(s, &f, ifindex);
	if (is_group(f.dst))
		return flood(skb, s, &f);
	to = find(s, &f);
	if (!to) {
		add(NETLORD_MISSES, 1);
		return flood(skb, s, &f);
	}
	if (to == ifindex)
		return drop(NETLORD_SAME_PORT);
	if (!retag(skb, to, f.vlan))
		return drop(NETLORD_FAILED);
	add(NETLORD_FORWARDED, 1);
	return bpf_redirect(to, 0);
}

char _license[] SEC("license") = "Apache-2.0";
