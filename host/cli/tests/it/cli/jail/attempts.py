# Attempts of a program in its jail. Prints a JSON object: the name of each attempt, and what became of it.
import ctypes, fcntl, json, os, pwd, resource, signal, socket, subprocess, sys, tempfile, threading

ground, host = sys.argv[1], int(sys.argv[2])
secret, outside = ground + "/secret", ground + "/outside"
read, write = ground + "/read", ground + "/write"
libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    as_long = [a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    if libc.syscall(ctypes.c_long(number), *as_long) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def put(path):
    with open(path, "w") as file:
        file.write("x")


def content(path):
    with open(path, "rb") as file:
        file.read()


def linked():
    os.symlink(secret, write + "/link")
    content(write + "/link")


def from_memory():
    memory = os.memfd_create("program", 0)
    os.write(memory, open("/bin/cat", "rb").read())
    subprocess.run([f"/proc/self/fd/{memory}", secret], check=True, pass_fds=[memory], capture_output=True)


def from_child():
    subprocess.run(["/bin/cat", secret], check=True, capture_output=True)


def every_socket():
    for family in range(46):
        for kind in (1, 2, 3, 4, 5, 10):
            try:
                socket.socket(family, kind).close()
            except OSError:
                continue
            return
    raise OSError("none")


def datagram_pair():
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", ground + "/socket")


def connect(address):
    socket.create_connection(address, 1).close()


def inherited_descriptor():
    os.fstat(9)


def temporary_program():
    path = tempfile.mkdtemp() + "/program"
    put(path)
    with open(path, "w") as file:
        file.write("#!/bin/sh\nexit 0\n")
    subprocess.run(["/bin/sh", path], check=True)


def child_with_signal():
    child = subprocess.Popen(["sleep", "100"], start_new_session=True)
    child.kill()
    child.wait()


def thread():
    one = threading.Thread(target=int)
    one.start()
    one.join()


ALLOWED = {
    "read a granted file": lambda: content(read + "/file"),
    "write in a granted folder": lambda: put(write + "/new"),
    "rename in a granted folder": lambda: os.rename(write + "/new", write + "/renamed"),
    "change the mode of its own file": lambda: os.fchmod(os.open(write + "/renamed", os.O_RDWR), 0o600),
    "run a temporary program": temporary_program,
    "start and end a process of another session": child_with_signal,
    "start a thread": thread,
    "pair of sockets": lambda: socket.socketpair(),
    "random numbers": lambda: content("/proc/self/stat") or open("/dev/urandom", "rb").read(1),
    "name of the user": lambda: pwd.getpwuid(os.getuid()),
    "discard output": lambda: put("/dev/null"),
}
REFUSED = {
    "read a key": lambda: content(secret),
    "read a key through a link": linked,
    "read a key with a child": from_child,
    "read a key with a program in memory": from_memory,
    "link a key into a grant": lambda: os.link(secret, write + "/hard"),
    "list the folder around a grant": lambda: os.listdir(ground),
    "read passwords": lambda: content("/etc/shadow"),
    "read the environment of the host": lambda: content(f"/proc/{host}/environ"),
    "read the environment of its supervisor": lambda: content(f"/proc/{os.getppid()}/environ"),
    "read the memory of the host": lambda: content(f"/proc/{host}/mem"),
    "follow a descriptor of the host": lambda: os.readlink(f"/proc/{host}/fd/0"),
    "open a descriptor of the host": lambda: content(f"/proc/{host}/fd/0"),
    "write beside a grant": lambda: put(outside),
    "write in a folder for reading": lambda: put(read + "/new"),
    "change a file for reading": lambda: put(read + "/file"),
    "change its own interpreter": lambda: open(sys.executable, "r+b"),
    "rename out of a grant": lambda: os.rename(write + "/renamed", outside),
    "truncate a key": lambda: os.truncate(secret, 0),
    "change the mode of a key": lambda: os.chmod(secret, 0o666),
    "change the owner of a key": lambda: os.chown(secret, os.getuid(), os.getgid()),
    "change attributes of a key": lambda: os.setxattr(secret, "user.x", b"x"),
    "make a device": lambda: os.mknod(write + "/device", 0o20666, 0x103),
    "become another user": lambda: os.setuid(1),
    "socket of any family": every_socket,
    "connect to a local port": lambda: connect(("127.0.0.1", 22)),
    "connect to the metadata of a cloud": lambda: connect(("169.254.169.254", 80)),
    "resolve a name": lambda: socket.getaddrinfo("example.com", 443),
    "datagram to a socket by its path": datagram_pair,
    "trace the host": lambda: call(101, 16, host, 0, 0),
    "read memory of the host by call": lambda: call(310, host, 0, 0, 0, 0, 0),
    "take a descriptor of the host": lambda: call(438, os.pidfd_open(host), 0, 0),
    "signal to the host": lambda: os.kill(host, signal.SIGURG),
    "signal to its supervisor": lambda: os.kill(os.getppid(), signal.SIGURG),
    "limits of the host": lambda: resource.prlimit(host, resource.RLIMIT_CORE, (0, 0)),
    "priority of the host": lambda: os.setpriority(os.PRIO_PROCESS, host, 19),
    "processors of the host": lambda: os.sched_setaffinity(host, {0}),
    "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)),
    "key of the user": lambda: call(248, b"user", b"name", b"x", 1, -3),
    "keyring": lambda: call(250, 0, -3, 0),
    "mount": lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0),
    "user namespace": lambda: call(272, 0x10000000),
    "change its root": lambda: os.chroot(write),
    "bpf": lambda: call(321, 0, 0, 0),
    "performance counters": lambda: call(298, 0, 0, -1, -1, 0),
    "userfaultfd": lambda: call(323, 1),
    "io_uring": lambda: call(425, 1, 0),
    "file handle": lambda: call(303, -100, b"/", 0, 0, 0),
    "shared memory by key": lambda: call(29, 1, 4096, 0o1600),
    "message queue by name": lambda: call(240, b"q", 0o102, 0o600, 0),
    "system call of x32": lambda: call(0x40000000 + 39),
    "unknown system call": lambda: call(10000),
    "type into a terminal": lambda: fcntl.ioctl(0, 0x5412, b"x"),
    "open the terminal": lambda: content("/dev/tty"),
    "inherited descriptor": inherited_descriptor,
}


def outcome(attempt):
    try:
        attempt()
        return "allowed"
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        return f"refused: {error}"


print(json.dumps({"allowed": {n: outcome(a) for n, a in ALLOWED.items()},
                  "refused": {n: outcome(a) for n, a in REFUSED.items()}}))
