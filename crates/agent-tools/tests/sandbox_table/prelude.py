# What every attempt can use. An attempt ends with one of three lines: `passes`, `refused`, or `absent` for what this
# machine does not have.
import ctypes, errno, os, socket, sys, time

libc = ctypes.CDLL(None, use_errno=True)
ABSENT = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.ENOTSUP, errno.ENOSYS, errno.ENODEV)


def end(word, why=""):
    print(why)
    print(word, flush=True)
    os._exit(0)


def call(number, *arguments):
    """A system call as the kernel sees it. Pointers are ctypes objects or bytes."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[a if not isinstance(a, int) else ctypes.c_ulong(a) for a in arguments])
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def reaches_the_kernel(number, *arguments):
    """Whether the kernel looks at the arguments, which are wrong on purpose, or refuses before it does."""
    try:
        call(number, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise


def sockets(number, *kinds):
    """Whether one of these sockets can be created, or is refused because the machine does not have it."""
    for kind in kinds:
        try:
            call(number, *kind)
        except OSError as error:
            if os.environ["KIND"] == "none":
                end("absent", str(error))
            if error.errno not in (errno.EPERM, errno.EACCES):
                end("passes", "not filtered: %s" % error)
            last = error
        else:
            end("passes")
    raise last


def echoes(one):
    """Whether the test's server answers on this socket."""
    one.settimeout(2)
    one.send(b"ping")
    if one.recv(16) != b"pong":
        end("refused", "no answer")


def attempt(body):
    try:
        body()
    except OSError as error:
        word = "absent" if error.errno in ABSENT and os.environ.get("KIND") == "none" else "refused"
        end(word, str(error))
    end("passes")
