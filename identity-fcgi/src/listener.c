/* The listening socket: made here, or inherited from a supervisor. */

#include "listener.h"

#include "config.h"

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

static bool set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* Over TCP, and inherited by what is accepted: an answer does not wait for the
 * peer's acknowledgement.  A Unix socket has no such option. */
static void set_nodelay(int fd)
{
    int on = 1;

    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static bool fail(const struct listener *l, const char *what, char *err,
                 size_t err_cap)
{
    snprintf(err, err_cap, "cannot listen on %s: %s", l->name, what);
    return false;
}

/* -- inherited ------------------------------------------------------------
 */

static bool is_listening(int fd)
{
    int on = 0;
    socklen_t len = sizeof(on);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on;
}

static bool adopt(struct listener *l, char *err, size_t err_cap)
{
    snprintf(l->name, sizeof(l->name), "descriptor 0");
    l->inherited = true;
    /* Above the standard three: something else may print to stdout. */
    l->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (l->fd < 0 || !set_nonblocking(l->fd)) {
        return fail(l, strerror(errno), err, err_cap);
    }
    set_nodelay(l->fd);
    return true;
}

/* -- Unix socket ----------------------------------------------------------
 */

/* Whether a process accepts connections at addr. */
static bool somebody_listens(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool live;

    if (fd < 0) {
        return true; /* unknown: do not remove what may be in use */
    }
    live = connect(fd, (const struct sockaddr *) addr, sizeof(*addr)) == 0 ||
           errno != ECONNREFUSED;
    close(fd);
    return live;
}

static int bind_0660(int fd, const struct sockaddr_un *addr)
{
    mode_t old = umask(0117);
    int rc = bind(fd, (const struct sockaddr *) addr, sizeof(*addr));

    umask(old);
    return rc;
}

/* Binds; a path that nobody listens on any more is taken over. */
static bool bind_path(int fd, const struct sockaddr_un *addr)
{
    struct stat st;

    if (bind_0660(fd, addr) == 0) {
        return true;
    }
    if (errno != EADDRINUSE) {
        return false;
    }
    if (lstat(addr->sun_path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        errno = ENOTSOCK;
        return false;
    }
    if (somebody_listens(addr)) {
        errno = EADDRINUSE;
        return false;
    }
    return unlink(addr->sun_path) == 0 && bind_0660(fd, addr) == 0;
}

/* Locks the directory that holds path, so that of two starters that find the
 * same dead socket one does not remove the other's new one. */
static int lock_directory(const char *path)
{
    char copy[108];
    int fd;

    snprintf(copy, sizeof(copy), "%s", path);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void) flock(fd, LOCK_EX);
    }
    return fd;
}

static bool open_path(struct listener *l, const char *path, char *err,
                      size_t err_cap)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    int lock_fd, error;
    bool ok;

    if (strlen(path) >= sizeof(addr.sun_path)) {
        return fail(l, "the path is too long", err, err_cap);
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0) {
        return fail(l, strerror(errno), err, err_cap);
    }
    lock_fd = lock_directory(path);
    ok = bind_path(l->fd, &addr) && listen(l->fd, LISTENER_BACKLOG) == 0;
    error = errno;
    if (lock_fd >= 0) {
        close(lock_fd);
    }
    if (!ok) {
        close(l->fd);
        l->fd = -1;
        return fail(l, strerror(error), err, err_cap);
    }
    memcpy(l->path, addr.sun_path, sizeof(l->path));
    if (stat(path, &st) == 0) {
        l->dev = st.st_dev;
        l->ino = st.st_ino;
    }
    return true;
}

/* -- TCP ------------------------------------------------------------------
 */

static int open_address(const struct addrinfo *ai)
{
    /* A whole request waits in the kernel before a worker sees it. */
    int on = 1, receive_bytes = 256 * 1024;
    int fd =
        socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0) {
        return -1;
    }
    (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    (void) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                      sizeof(receive_bytes));
    set_nodelay(fd);
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 &&
        listen(fd, LISTENER_BACKLOG) == 0) {
        return fd;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool open_tcp(struct listener *l, const char *address, char *err,
                     size_t err_cap)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const char *colon = strrchr(address, ':');
    char host[256];
    size_t len;
    int rc;

    if (colon == NULL || colon == address ||
        (size_t) (colon - address) >= sizeof(host)) {
        return fail(l, "neither a path nor host:port", err, err_cap);
    }
    len = (size_t) (colon - address);
    memcpy(host, address, len);
    host[len] = '\0';
    if (host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        memmove(host, host + 1, len - 1);
    }
    rc = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, colon + 1, &hints,
                     &list);
    if (rc != 0) {
        return fail(l, gai_strerror(rc), err, err_cap);
    }
    for (struct addrinfo *ai = list; ai != NULL && l->fd < 0;
         ai = ai->ai_next) {
        l->fd = open_address(ai);
    }
    if (l->fd < 0) {
        (void) fail(l, strerror(errno), err, err_cap);
    }
    freeaddrinfo(list);
    return l->fd >= 0;
}

/* -- both -----------------------------------------------------------------
 */

bool listener_open(struct listener *l, const char *address, char *err,
                   size_t err_cap)
{
    memset(l, 0, sizeof(*l));
    l->fd = -1;
    if (address == NULL && is_listening(STDIN_FILENO)) {
        return adopt(l, err, err_cap);
    }
    if (address == NULL) {
        address = CONFIG_DEFAULT_LISTEN;
    }
    if (strncmp(address, "unix:", 5) == 0) {
        address += 5;
    }
    snprintf(l->name, sizeof(l->name), "%s", address);
    return strchr(address, '/') != NULL ? open_path(l, address, err, err_cap)
                                        : open_tcp(l, address, err, err_cap);
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
    if (l->fd >= 0) {
        close(l->fd);
        l->fd = -1;
    }
}
