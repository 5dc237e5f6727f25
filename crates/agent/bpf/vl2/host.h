/* The tables of a host's programs. */
#ifndef WEFT_VL2_HOST_H
#define WEFT_VL2_HOST_H

#include "packet.h"

/* What is known of other AAs, by service of this host. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, struct vl2_peer_key);
	__type(value, struct vl2_peer);
} peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct vl2_group);
} groups SEC(".maps");

/* The multicast addresses of the services that have an AA here, and these services. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __be32);
	__type(value, __u32);
} multicasts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct vl2_flow);
	__type(value, struct vl2_flow_state);
} flows SEC(".maps");

/* What flows have sent; not in use without VL2_PLACEMENTS. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct vl2_flow);
	__type(value, struct vl2_count);
} counts SEC(".maps");

/* Flows that a scheduler has placed; user space alone writes here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct vl2_flow);
	__type(value, struct vl2_placement);
} placements SEC(".maps");

/* The hash of the first fragment, for the later ones. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct vl2_fragments);
	__type(value, __u32);
} fragments SEC(".maps");

/* By the low bits of the outer source. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct vl2_path);
} paths SEC(".maps");

/* What may arrive for a locator. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, VL2_RULES_MAX);
	__type(key, struct vl2_rule);
	__type(value, __u32);
} rules SEC(".maps");

/* Datagrams that would answer those that this host has sent from a locator, and when it last sent one. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct vl2_flow);
	__type(value, __u64);
} answers SEC(".maps");

slow_path struct vl2_peer *find_peer(const struct vl2_address *address, __u32 service)
{
	struct vl2_peer_key key = { .service = service };

	if (!address)
		return NULL;
	key.address = *address;
	return bpf_map_lookup_elem(&peers, &key);
}

#endif
