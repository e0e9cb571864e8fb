#!/usr/bin/env python3
"""Writes the FileDescriptorSet of the Envoy API that libosm uses, read from the xds-protos wheel.

The wheel holds one Python module per .proto file, each with its serialized FileDescriptorProto.
This reads those bytes without importing anything, follows the imports of the wanted files, and
writes the closure (minus google/protobuf, which the installed protobuf library brings itself).

usage: descriptors.py SITE_DIR ROOTS.txt OUT.pb OUT_FILES.txt
"""

import ast
import pathlib
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7


def encode_varint(value):
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def dependencies(descriptor):
    """Field 3 (dependency) of a serialized FileDescriptorProto."""
    at, found = 0, []
    while at < len(descriptor):
        tag, at = varint(descriptor, at)
        if tag & 7 == 0:
            _, at = varint(descriptor, at)
            continue
        if tag & 7 != 2:
            raise ValueError(f"unexpected wire type {tag & 7}")
        length, at = varint(descriptor, at)
        if tag >> 3 == 3:
            found.append(descriptor[at : at + length].decode())
        at += length
    return found


def serialized(site, proto):
    module = site / (proto[: -len(".proto")].replace("-", "_") + "_pb2.py")
    if not module.exists():
        sys.exit(f"{proto}: not in the xds-protos wheel (looked for {module})")
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
            return node.args[0].value
    sys.exit(f"{module}: has no serialized descriptor")


def main():
    site, roots, out, names = pathlib.Path(sys.argv[1]), *map(pathlib.Path, sys.argv[2:5])
    done = {}

    def visit(proto):
        if proto in done or proto.startswith("google/protobuf/"):
            return
        done[proto] = b""  # marks it visited; imports cannot be cyclic
        data = serialized(site, proto)
        for dependency in dependencies(data):
            visit(dependency)
        done.pop(proto)
        done[proto] = data

    for line in roots.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            visit(line.strip())
    out.write_bytes(b"".join(b"\x0a" + encode_varint(len(d)) + d for d in done.values()))
    names.write_text("".join(f"{name}\n" for name in done))


main()
