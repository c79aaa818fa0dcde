/* Copyright (c) 2026, hpc.fabric contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * LD_PRELOAD shim: makes a host with cgroup v1 controllers look like a pure cgroup v2 host to one process tree.
 * Every open of /proc/<pid|self>/cgroup for reading returns only its "0::" line. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int open_fn(const char *, int, ...);

static int is_cgroup_file(const char *path)
{
    const char *slash;

    if (!path || strncmp(path, "/proc/", 6))
        return 0;
    slash = strchr(path + 6, '/');
    return slash && !strcmp(slash, "/cgroup");
}

static int open_filtered(const char *path, open_fn *real_open)
{
    char text[16384], *line, *rest = text;
    ssize_t length = 0, got;
    int copy, fd = real_open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return fd;
    while ((got = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
        length += got;
    close(fd);
    text[length] = 0;
    copy = memfd_create("cgroup", MFD_CLOEXEC);
    if (copy < 0)
        return copy;
    while ((line = strsep(&rest, "\n")))
        if (!strncmp(line, "0::", 3))
            dprintf(copy, "%s\n", line);
    lseek(copy, 0, SEEK_SET);
    return copy;
}

#define WRAP_OPEN(NAME)                                                    \
    int NAME(const char *path, int flags, ...)                            \
    {                                                                      \
        static open_fn *real;                                              \
        mode_t mode = 0;                                                   \
        va_list args;                                                      \
        if (!real)                                                         \
            real = dlsym(RTLD_NEXT, #NAME);                                \
        va_start(args, flags);                                             \
        if (flags & (O_CREAT | __O_TMPFILE))                               \
            mode = va_arg(args, mode_t);                                   \
        va_end(args);                                                      \
        return is_cgroup_file(path) ? open_filtered(path, real)            \
                                    : real(path, flags, mode);             \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)

#define WRAP_FOPEN(NAME)                                                   \
    FILE *NAME(const char *path, const char *mode)                        \
    {                                                                      \
        static FILE *(*real)(const char *, const char *);                  \
        int fd;                                                            \
        if (!real)                                                         \
            real = dlsym(RTLD_NEXT, #NAME);                                \
        if (!is_cgroup_file(path))                                         \
            return real(path, mode);                                       \
        fd = open_filtered(path, dlsym(RTLD_NEXT, "open"));                \
        return fd < 0 ? NULL : fdopen(fd, "r");                            \
    }
WRAP_FOPEN(fopen)
WRAP_FOPEN(fopen64)
