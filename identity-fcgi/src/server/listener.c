/* The listening socket, created here or inherited from a supervisor. */

#include "server/listener.h"

#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096
#define SOCKET_FLAGS (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK)

/* Closes fd, keeps errno and returns -1. */
static int close_failed(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

static bool is_listening(int fd)
{
    int on = 0;
    socklen_t len = sizeof(on);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on;
}

/* Duplicates descriptor 0 above 2, because libraries may print to stdout. */
static int adopt(void)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0
               ? fd
               : close_failed(fd);
}

static int open_address(const struct sockaddr *addr, socklen_t len)
{
    int fd = socket(addr->sa_family, SOCKET_FLAGS, 0);
    mode_t old = umask(0117);
    int on = 1;

    (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, addr, len) != 0 || listen(fd, BACKLOG) != 0) {
        fd = close_failed(fd);
    }
    umask(old);
    return fd;
}

/* Returns true if addr is a Unix socket without a listener. */
static bool is_dead(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    struct stat st;
    bool dead =
        lstat(addr->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(fd, (const struct sockaddr *) addr, sizeof(*addr)) != 0 &&
        errno == ECONNREFUSED;

    close(fd);
    return dead;
}

static int open_path(struct listener *l, const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char directory[sizeof(addr.sun_path)];
    struct stat st;
    int fd, lock_fd;

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    snprintf(directory, sizeof(directory), "%s", path);
    /* The lock keeps two processes that start together from removing each
     * other's new socket. */
    lock_fd = open(dirname(directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void) flock(lock_fd, LOCK_EX);
    if (is_dead(&addr)) {
        (void) unlink(path);
    }
    fd = open_address((const struct sockaddr *) &addr, sizeof(addr));
    if (fd >= 0 && stat(path, &st) == 0) {
        memcpy(l->path, addr.sun_path, sizeof(l->path));
        l->dev = st.st_dev;
        l->ino = st.st_ino;
    }
    (void) close_failed(lock_fd);
    return fd;
}

/* Opens host:port or [v6]:port.  Sets *problem if the failure is not in
 * errno. */
static int open_tcp(const char *address, const char **problem)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char host[300], *port;
    int rc, fd = -1;

    snprintf(host, sizeof(host), "%s", address);
    port = strrchr(host, ':');
    *port++ = '\0';
    if (host[0] == '[') {
        port[-2] = '\0';
    }
    rc = getaddrinfo(host + (host[0] == '['), port, &hints, &list);
    if (rc != 0) {
        *problem = gai_strerror(rc);
        return -1;
    }
    for (struct addrinfo *ai = list; ai != NULL && fd < 0; ai = ai->ai_next) {
        fd = open_address(ai->ai_addr, ai->ai_addrlen);
    }
    freeaddrinfo(list);
    return fd;
}

bool listener_open(struct listener *l, const char *address, struct error *e)
{
    const char *problem = NULL;
    int on = 1;

    memset(l, 0, sizeof(*l));
    l->inherited = address == NULL && is_listening(STDIN_FILENO);
    if (address == NULL) {
        address = l->inherited ? "descriptor 0" : CONFIG_DEFAULT_LISTEN;
    } else if (strncmp(address, "unix:", 5) == 0) {
        address += 5;
    }
    snprintf(l->name, sizeof(l->name), "%s", address);
    if (l->inherited) {
        l->fd = adopt();
    } else if (strchr(address, '/') != NULL) {
        l->fd = open_path(l, address);
    } else {
        l->fd = open_tcp(address, &problem);
    }
    if (l->fd < 0) {
        return error_is(e, "cannot listen on %s: %s", l->name,
                        problem != NULL ? problem : strerror(errno));
    }
    /* Inherited by TCP connections: answers do not wait for
     * acknowledgements. */
    (void) setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return true;
}

void listener_unlink(struct listener *l)
{
    struct stat st;

    if (l->path[0] != '\0' && stat(l->path, &st) == 0 && st.st_dev == l->dev &&
        st.st_ino == l->ino) {
        (void) unlink(l->path);
    }
    l->path[0] = '\0';
}

void listener_close(struct listener *l)
{
    listener_unlink(l);
    if (l->fd >= 0) {
        close(l->fd);
        l->fd = -1;
    }
}
