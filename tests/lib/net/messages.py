"""Protobuf messages of the Envoy API. The pinned wheel's Python modules need a newer protobuf than
Debian's, but each holds its serialized descriptor, and from that any protobuf makes the classes."""

import ast
import importlib
import pathlib
import types

from google.protobuf import descriptor_pb2, descriptor_pool, symbol_database

WHEEL = pathlib.Path(__file__).resolve().parents[3] / "build/tools/xds-protos"


def load(proto):
    """The message classes of a .proto file, by name: load("a/b.proto").Message."""
    file = _add(proto)
    database = symbol_database.Default()
    return types.SimpleNamespace(
        **{name: database.GetPrototype(descriptor) for name, descriptor in file.message_types_by_name.items()}
    )


def _add(proto):
    """Puts the file and what it imports into the pool."""
    pool = descriptor_pool.Default()
    stem = proto.removesuffix(".proto")
    if proto.startswith("google/protobuf/"):  # the library's own
        importlib.import_module(stem.replace("/", ".") + "_pb2")
    try:
        return pool.FindFileByName(proto)
    except KeyError:
        pass
    module = WHEEL / (stem.replace("-", "_") + "_pb2.py")
    serialized = next(
        node.args[0].value
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile"
    )
    for imported in descriptor_pb2.FileDescriptorProto.FromString(serialized).dependency:
        _add(imported)
    pool.AddSerializedFile(serialized)
    return pool.FindFileByName(proto)
