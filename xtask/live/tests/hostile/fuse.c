// A file system with one executable file. Prints the process of each opening of it.
//
// fuse FOLDER FILE [stalls]: serves FILE as FOLDER/file; with `stalls` it never answers a read of its second half.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int device;
static char *content;
static size_t size;

static void answer(struct fuse_in_header *in, int error, void *data, size_t length) {
    struct fuse_out_header out = {sizeof out + length, error, in->unique};
    struct iovec parts[] = {{&out, sizeof out}, {data, length}};
    if (writev(device, parts, length ? 2 : 1) < 0) {
        perror("answer");
    }
}

static struct fuse_attr attributes(unsigned long node) {
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = 4096};
    attr.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0755;
    attr.size = node == 1 ? 0 : size;
    return attr;
}

static void open_file(struct fuse_in_header *in) {
    struct fuse_open_out out = {.open_flags = FOPEN_KEEP_CACHE};
    if (in->nodeid != 1) {
        printf("%u\n", in->pid);
        fflush(stdout);
    }
    answer(in, 0, &out, sizeof out);
}

static void read_file(struct fuse_in_header *in, struct fuse_read_in *read, int stalls) {
    size_t start = read->offset < size ? read->offset : size;
    size_t end = start + read->size < size ? start + read->size : size;
    if (!stalls || end <= size / 2) {
        answer(in, 0, content + start, end - start);
    }
}

static void serve(struct fuse_in_header *in, int stalls) {
    void *body = in + 1;
    switch (in->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
        answer(in, 0, &out, sizeof out);
        break;
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = {.nodeid = 2, .attr_valid = 3600, .entry_valid = 3600, .attr = attributes(2)};
        answer(in, strcmp(body, "file") ? -ENOENT : 0, &out, strcmp(body, "file") ? 0 : sizeof out);
        break;
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr_valid = 3600, .attr = attributes(in->nodeid)};
        answer(in, 0, &out, sizeof out);
        break;
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        open_file(in);
        break;
    case FUSE_READ:
        read_file(in, body, stalls);
        break;
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255}};
        answer(in, 0, &out, sizeof out);
        break;
    }
    case FUSE_FLUSH:
    case FUSE_RELEASE:
        answer(in, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        answer(in, -ENOSYS, NULL, 0);
    }
}

int main(int count, char **arguments) {
    char options[128];
    int file = open(arguments[2], O_RDONLY);
    size = lseek(file, 0, SEEK_END);
    content = malloc(size);
    if (pread(file, content, size, 0) != (ssize_t)size || (device = open("/dev/fuse", O_RDWR)) < 0) {
        return 1;
    }
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", device, getuid(), getgid());
    if (mount("hostile", arguments[1], "fuse.hostile", MS_NOSUID | MS_NODEV, options) != 0) {
        perror("mount");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    static char buffer[1 << 20];
    while (read(device, buffer, sizeof buffer) > 0) {
        serve((void *)buffer, count > 3);
    }
    umount2(arguments[1], MNT_DETACH);
    return 0;
}
