// Preloaded into a program whose wall clock a test sets: CLOCK_REALTIME, and the times at which datagrams arrived, are shifted.
// The file that WEFT_TEST_CLOCK names holds three numbers of 8 bytes, in nanoseconds: the shift before the last change, the shift since, and the
// true time of that change. Built by clock.rs: cc -shared -fPIC clock.c

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile const int64_t *shared;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("WEFT_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, 24, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        shared = mapped;
    close(file);
}

static void shift(struct timespec *time) {
    int64_t now = time->tv_sec * SECOND + time->tv_nsec;
    now += now < shared[2] ? shared[0] : shared[1];
    time->tv_sec = now / SECOND;
    time->tv_nsec = now % SECOND;
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, id, time);
    if (!failed && shared && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        shift(time);
    return failed;
}

int recvmmsg(int socket, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout) {
    static int (*next)(int, struct mmsghdr *, unsigned int, int, struct timespec *);
    if (!next)
        next = dlsym(RTLD_NEXT, "recvmmsg");
    int got = next(socket, messages, count, flags, timeout);
    for (int i = 0; shared && i < got; i++) {
        struct msghdr *header = &messages[i].msg_hdr;
        for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control; control = CMSG_NXTHDR(header, control))
            if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SO_TIMESTAMPNS)
                shift((struct timespec *)CMSG_DATA(control));
    }
    return got;
}
