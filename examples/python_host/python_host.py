#!/usr/bin/env python3
"""A control plane in Python: a mesh in memory, over libosm's C interface.

usage: python_host.py LIBRARY ADS_ADDRESS DIRECTORY

LIBRARY is libosm_c.so. Each machine's files are in DIRECTORY/<machine>. SIGHUP takes the client's
permission away, SIGTERM and SIGINT end the mesh.
"""

import ctypes
import json
import os
import pathlib
import signal
import sys

PROXY_UID = 1500
MACHINES = ("client", "server")  # of shop.yaml
TEXT, HANDLE, ERROR = ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)


class MachineArgument(ctypes.Structure):  # osm_machine
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("ns", TEXT),
        ("name", TEXT),
        ("controller", TEXT),
        ("directory", TEXT),
        ("request_pem", TEXT),
        ("proxy_uid", ctypes.c_uint32),
    ]


class File(ctypes.Structure):  # osm_file
    _fields_ = [("name", TEXT), ("content", TEXT), ("mode", ctypes.c_uint), ("proxys", ctypes.c_int)]


class Library:
    """Functions of osm_c.h. ctypes releases the interpreter's lock while one of them runs."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name, result, *arguments in (
            ("osm_error_code", TEXT, HANDLE),
            ("osm_error_message", TEXT, HANDLE),
            ("osm_error_free", None, HANDLE),
            ("osm_text_free", None, HANDLE),
            ("osm_options_new", HANDLE),
            ("osm_options_free", None, HANDLE),
            ("osm_options_set_ads_address", None, HANDLE, TEXT),
            ("osm_options_set_log", None, HANDLE, ctypes.c_int, TEXT),
            ("osm_mesh_start", HANDLE, HANDLE, ERROR),
            ("osm_mesh_apply", ctypes.c_int, HANDLE, TEXT, ERROR),
            ("osm_mesh_delete", ctypes.c_int, HANDLE, TEXT, ERROR),
            ("osm_mesh_wait_applied", ctypes.c_int, HANDLE, TEXT, ctypes.c_int, ERROR),
            ("osm_mesh_get", HANDLE, HANDLE, TEXT, ERROR),
            ("osm_mesh_bootstrap", HANDLE, HANDLE, ctypes.POINTER(MachineArgument), ERROR),
            ("osm_bootstrap_file", ctypes.POINTER(File), HANDLE, ctypes.c_size_t),
            ("osm_bootstrap_free", None, HANDLE),
            ("osm_mesh_stop", ctypes.c_int, HANDLE, ctypes.c_int, ERROR),
        ):
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments

    def call(self, name, *arguments):
        """The result of a function that can fail. Failure: RuntimeError with the error's text."""
        error = ctypes.c_void_p()
        result = getattr(self.c, name)(*arguments, ctypes.byref(error))
        if result in (None, -1):
            text = f"{self.c.osm_error_code(error).decode()}: {self.c.osm_error_message(error).decode()}"
            self.c.osm_error_free(error)
            raise RuntimeError(text)
        return result


def write_files(osm, mesh, name, directory):
    directory.mkdir()
    machine = MachineArgument(ctypes.sizeof(MachineArgument), b"shop", name.encode(), None, str(directory).encode())
    bootstrap = osm.call("osm_mesh_bootstrap", mesh, ctypes.byref(machine))
    number = 0
    while file := osm.c.osm_bootstrap_file(bootstrap, number):  # a null pointer is false
        file, number = file.contents, number + 1
        fd = os.open(directory / file.name.decode(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
        with open(fd, "wb") as out:
            os.fchown(fd, PROXY_UID if file.proxys else 0, 0)
            out.write(file.content)
    osm.c.osm_bootstrap_free(bootstrap)


def objects(file):
    """A program with data of its own writes this text from it; JSON is YAML."""
    return (pathlib.Path(__file__).parent / file).read_bytes()


def main(library, address, directory):
    # The mesh's threads inherit the mask: only sigwait() takes these signals.
    signals = {signal.SIGHUP, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    osm = Library(library)
    options = osm.c.osm_options_new()
    osm.c.osm_options_set_ads_address(options, address.encode())
    osm.c.osm_options_set_log(options, sys.stderr.fileno(), b"warning")
    mesh = osm.call("osm_mesh_start", options)
    osm.c.osm_options_free(options)
    osm.call("osm_mesh_apply", mesh, objects("shop.yaml"))
    osm.call("osm_mesh_apply", mesh, objects("permission.yaml"))
    for name in MACHINES:
        write_files(osm, mesh, name, pathlib.Path(directory).resolve() / name)
    print("ready", flush=True)
    while signal.sigwait(signals) == signal.SIGHUP:
        osm.call("osm_mesh_delete", mesh, objects("permission.yaml"))
        osm.call("osm_mesh_wait_applied", mesh, objects("permission.yaml"), 5000)
        answer = osm.call("osm_mesh_get", mesh, b"/v1/proxies")
        print("forbidden, at", len(json.loads(ctypes.string_at(answer))["proxies"]), "proxies", flush=True)
        osm.c.osm_text_free(answer)
    osm.call("osm_mesh_stop", mesh, 5000)


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 4 else sys.exit(__doc__)
