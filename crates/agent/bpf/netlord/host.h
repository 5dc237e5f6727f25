/* The tables of a server's programs. */
#ifndef WEFT_NETLORD_HOST_H
#define WEFT_NETLORD_HOST_H

#define NETLORD_COUNTERS NETLORD_HOST_COUNTERS
#define COUNTER netlord_host_counter
#include "packet.h"

/* The most VIFs of a server. */
#define NETLORD_VIFS 32768

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct netlord_host_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct netlord_uplink);
} uplinks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NETLORD_VIFS);
	__type(key, __u32);
	__type(value, struct netlord_vif);
} vifs SEC(".maps");

/* VIFs of this server: their interfaces. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NETLORD_VIFS);
	__type(key, struct netlord_name);
	__type(value, __u32);
} locals SEC(".maps");

/* VIFs elsewhere that are sent to. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct netlord_name);
	__type(value, struct netlord_place);
} remotes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct netlord_reached);
	__type(value, struct netlord_paths);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct netlord_path);
	__type(value, struct netlord_reported);
} reported SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4 * NETLORD_VIFS);
	__type(key, struct netlord_owned);
	__type(value, __u8);
} owned SEC(".maps");

/* Of VIFs, by their interfaces. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NETLORD_VIFS);
	__type(key, __u32);
	__type(value, struct netlord_budget);
} vif_budgets SEC(".maps");

/* Of the MAC spaces that have a VIF here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NETLORD_VIFS);
	__type(key, struct netlord_space);
	__type(value, struct netlord_budget);
} space_budgets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct netlord_route_key);
	__type(value, struct netlord_route);
} routed SEC(".maps");

#endif
