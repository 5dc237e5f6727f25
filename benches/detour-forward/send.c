/* Sends one frame again and again from a device, at a rate: send DEVICE FRAME-IN-HEX PACKETS-PER-SECOND SECONDS. Prints how many were sent. */
#define _GNU_SOURCE
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BATCH 16

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static unsigned char frame[9000];
	struct mmsghdr messages[BATCH] = {};
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	struct iovec bytes = { .iov_base = frame };
	long sent = 0;
	double begun, rate, seconds;
	int s;

	if (argc != 5)
		return 2;
	for (; bytes.iov_len < sizeof(frame) && argv[2][2 * bytes.iov_len]; bytes.iov_len++)
		sscanf(argv[2] + 2 * bytes.iov_len, "%2hhx", &frame[bytes.iov_len]);
	rate = atof(argv[3]);
	seconds = atof(argv[4]);
	to.sll_ifindex = if_nametoindex(argv[1]);
	s = socket(AF_PACKET, SOCK_RAW, 0);
	if (s < 0 || bind(s, (struct sockaddr *)&to, sizeof(to)))
		return 1;
	for (int i = 0; i < BATCH; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &bytes, .msg_iovlen = 1 };
	begun = now();
	while (now() - begun < seconds) {
		int done;

		if (sent > (now() - begun) * rate)
			continue;
		done = sendmmsg(s, messages, BATCH, 0);
		if (done > 0)
			sent += done;
	}
	printf("%ld\n", sent);
	return 0;
}
