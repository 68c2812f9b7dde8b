// Prints the process of each opening of the files in its arguments. Opening without access (O_PATH) is none.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/fanotify.h>
#include <unistd.h>

int main(int count, char **files) {
    int watch = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
    for (int i = 1; i < count; i++) {
        if (fanotify_mark(watch, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, files[i]) != 0) {
            perror(files[i]);
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    char buffer[4096];
    for (;;) {
        ssize_t size = read(watch, buffer, sizeof buffer);
        struct fanotify_event_metadata *event = (void *)buffer;
        for (; FAN_EVENT_OK(event, size); event = FAN_EVENT_NEXT(event, size)) {
            printf("%d\n", event->pid);
        }
        fflush(stdout);
    }
}
