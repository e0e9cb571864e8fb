"""Becomes a container: `python3 container.py SPEC.json`, started by container_run.py for each run.

Joins the pod's network namespace, makes a mount namespace whose root is a tmpfs with the image's
files and the pod's volumes, drops the capabilities that the container does not have, and executes
its command as its user. An image of libosm has all its files, unpacked; in the others, which
stand for applications, the machine's programs are there too, read-only. A container's view is
thereby what an engine would give it; tests/e2e/kubernetes/README.md lists the missing parts.
"""

import ctypes
import json
import os
import pathlib
import sys

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x20000, 0x4000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 32, 4096, 16384
MS_PRIVATE = 1 << 18
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
SIGKILL = 9
# The machine's programs and libraries, and the files that they need.
SYSTEM = [
    "/usr",
    "/etc/alternatives",
    "/etc/ssl",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/services",
    "/etc/localtime",
]
LINKS = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
DEVICES = ["null", "zero", "full", "random", "urandom", "tty"]
# Default capabilities of container engines, in the kernel's order.
CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
]
DEFAULT = {
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SYS_CHROOT",
    "MKNOD",
    "AUDIT_WRITE",
    "SETFCAP",
}

_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    def encoded(text):
        return None if text is None else os.fsencode(text)

    _check(
        _LIBC.mount(encoded(source), encoded(str(target)), encoded(kind), ctypes.c_ulong(flags), encoded(data)),
        f"mount {source} at {target}",
    )


def bind(source, target, read_only=False):
    """`target` is made, as a file or a directory as `source` is one."""
    target = pathlib.Path(target)
    if os.path.isdir(source):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.touch()
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount(None, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def bind_all(source, root, paths):
    """Those of the paths that `source` has: links as links."""
    for path in paths:
        if os.path.islink(f"{source}{path}"):
            os.symlink(os.readlink(f"{source}{path}"), f"{root}{path}")
        elif os.path.exists(f"{source}{path}"):
            bind(f"{source}{path}", f"{root}{path}", read_only=True)


def make_root(root, spec):
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID, "mode=0755")
    if image := spec["imageRoot"]:
        bind_all(
            image,
            root,
            ["/usr", *(f"/etc/{name}" for name in os.listdir(f"{image}/etc") if name not in spec["etc"]), *LINKS],
        )
    else:
        bind_all("", root, [*SYSTEM, *LINKS])
    for path in ("dev", "proc", "sys", "tmp", "run", "var/run", "root", "home"):
        os.makedirs(f"{root}/{path}", exist_ok=True)
    os.chmod(f"{root}/tmp", 0o1777)
    os.makedirs(f"{root}/dev/shm")
    os.chmod(f"{root}/dev/shm", 0o1777)
    for device in DEVICES:
        bind(f"/dev/{device}", f"{root}/dev/{device}")
    for name, descriptor in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        os.symlink(f"/proc/self/fd/{descriptor}", f"{root}/dev/{name}")
    mount("proc", f"{root}/proc", "proc")
    mount("sysfs", f"{root}/sys", "sysfs", MS_RDONLY)
    for name, text in spec["etc"].items():
        (pathlib.Path(root) / "etc" / name).write_text(text)
    for entry in spec["mounts"]:
        bind(entry["source"], f"{root}{entry['target']}", entry.get("readOnly", False))
    if spec.get("readOnlyRoot"):
        mount(None, root, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def allowed_capabilities(security):
    if security.get("privileged"):
        return set(range(64))
    named = security.get("capabilities") or {}
    add = {c.removeprefix("CAP_") for c in named.get("add") or []}
    drop = {c.removeprefix("CAP_") for c in named.get("drop") or []}
    have = (set() if "ALL" in drop else DEFAULT - drop) | (set(CAPABILITIES) if "ALL" in add else add)
    return {CAPABILITIES.index(c) for c in have if c in CAPABILITIES}


def confine(security):
    allowed = allowed_capabilities(security)
    for capability in range(64):
        if capability not in allowed:
            _LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails beyond the last: no matter
    if security.get("allowPrivilegeEscalation") is False:
        _check(_LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def become(spec):
    with open(f"/run/netns/{spec['netns']}") as handle:
        _check(_LIBC.setns(handle.fileno(), CLONE_NEWNET), "setns")
    _check(_LIBC.unshare(CLONE_NEWNS | CLONE_NEWUTS), "unshare")
    hostname = os.fsencode(spec["env"]["HOSTNAME"])
    _check(_LIBC.sethostname(hostname, len(hostname)), "sethostname")
    root = spec["root"]
    make_root(root, spec)
    os.chroot(root)
    os.chdir(spec.get("workingDir") or "/")
    confine(spec["security"])
    user, group = spec["user"], spec["group"]
    os.setgroups(spec["groups"])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    # After the change of user, which clears it. No container outlives its test.
    _check(_LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "pdeathsig")
    if os.getppid() != spec["parent"]:
        sys.exit("the node agent is gone")
    os.environ.clear()
    os.environ.update(spec["env"])
    command = spec["command"]
    os.execvpe(command[0], command, spec["env"])


if __name__ == "__main__":
    try:
        become(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    except OSError as failed:  # as an engine's: the container cannot be run
        print(f"container: {failed}", file=sys.stderr)
        sys.exit(127)
