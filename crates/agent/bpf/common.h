/* What all programs share: counting, dropping, token buckets, the Internet checksum. The including header says how many counters there are (COUNTERS), and which
 * enumeration names them (COUNTER).
 */
#ifndef WEFT_COMMON_H
#define WEFT_COMMON_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#define always_inline static inline __attribute__((always_inline))
#define slow_path static __attribute__((noinline))
/* The kernel verifies it once by itself, and not for each state of each of its callers. Its pointers may be NULL and have no spin lock behind them, and what they point
 * to is anything afterwards.
 */
#define verified_alone __attribute__((noinline))

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* What another build of the programs had counted when this one took over (src/dataplane/carry.rs); user space's alone. The names, of no length, are for it to know
 * the counters of another build by.
 */
struct carried {
	__u64 amount;
	enum COUNTER name[0];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, struct carried);
} carried SEC(".maps");

always_inline void add(__u32 counter, __u64 amount)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &counter);

	if (value)
		*value += amount;
}

always_inline int drop(__u32 reason)
{
	add(reason, 1);
	return TC_ACT_SHOT;
}

/* How long ago that was. Another processor may have noted it since `now` was read: it was just now, and not 584 years ago. */
always_inline __u64 since(__u64 now, __u64 then)
{
	return now > then ? now - then : 0;
}

struct bucket {
	struct bpf_spin_lock lock;
	__u32 zero;
	__u64 tokens; /* billionths of what it lets through */
	__u64 filled_ns;
};

#define TOKEN 1000000000ull
#define IDLE_NS 10000000000ull

/* Fills a bucket, once for each moment. */
always_inline void refill(__u64 *tokens, __u64 *filled_ns, __u64 now, __u32 per_second, __u64 full)
{
	__u64 passed = since(now, *filled_ns);

	*filled_ns += passed;
	if (passed > IDLE_NS)
		passed = IDLE_NS;
	*tokens += passed * per_second;
	if (*tokens > full)
		*tokens = full;
}

/* Whether a token was there to take. */
always_inline int take_token(struct bucket *bucket, __u32 per_second, __u32 burst)
{
	__u64 now = bpf_ktime_get_ns();
	int taken = 0;

	if (!bucket)
		return 0;
	bpf_spin_lock(&bucket->lock);
	refill(&bucket->tokens, &bucket->filled_ns, now, per_second, burst * TOKEN);
	if (bucket->tokens >= TOKEN) {
		bucket->tokens -= TOKEN;
		taken = 1;
	}
	bpf_spin_unlock(&bucket->lock);
	return taken;
}

/* The Internet checksum of what was added up. */
always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

#endif
