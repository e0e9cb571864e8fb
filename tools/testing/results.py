"""Results that are known: an entry that passed with the same content of everything that it reads need not run again.

The key of an entry is the hash of its command, of the programs that it runs, of its script with the helpers that the
script imports, of the folders that their strings name, of Envoy and the other servers, and of the machine's packages.
For a program of ours, it has the files, folders and daemons that the string literals of its sources name. The commit
that a program tells belongs to no key.
A key that passed is a file of its name in OSM_CACHE_DIR/results.
"""

import ast
import functools
import hashlib
import os
import pathlib
import re
import subprocess

from testing.entries import sources as sources_of_build

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAEMONS = ["osm", "osm-controller", "osm-injector", "osm-cni"]
# Folders and files that a test may read: those that its sources mention belong to its key.
DATA = ["benchmarks", "charts", "cmake", "daemons", "deploy", "docs", "examples", "include", "libosm", "tools"]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"]
LITERAL = re.compile(rf'"((?:{"|".join([*DATA, "tests"])})(?:/[\w./-]*)?|{"|".join(map(re.escape, PAGES))})"')
# Entries about the tree itself: they are short, and everything belongs to them.
ALWAYS = re.compile(r"check|docs\.|lib\.|tools\.(cache|test)$|must_not_compile|program\.|fuzz$|mutate")
# Entries that compile the library: the tree without what only tests and readers use.
COMPILING = re.compile(r"consumer\.|tools\.(image_rebuild|package|debian|arm64)")
# Files beside a script that it reads only if it names them, or if its entry compiles what is there.
UNREAD = ["CMakeLists.txt", "README.md"]
BUILDING_TESTS = re.compile(r"tools\.(package|debian|arm64)")  # and tests, or programs of theirs
LIBRARY = [
    "CMakeLists.txt",
    "cmake",
    "include",
    "libosm",
    "daemons",
    "charts",
    "deploy",
    "examples",
    "tools",
    "LICENSE",
]


def directory():
    """Result: where results are kept, or None without OSM_CACHE_DIR. None, too, if a variable like OSM_TEST_SEED has
    tests run as the caller says, which no key has."""
    cache = os.environ.get("OSM_CACHE_DIR")
    asked = any(name.startswith("OSM_TEST_") for name in os.environ)
    return pathlib.Path(cache, "results") if cache and not asked else None


BUILD_ID = re.compile(rb"(\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0).{20}", re.S)  # the note that linkers write


@functools.cache
def commit():
    shown = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    return shown.stdout.strip()


def without_commit(program, name):
    """A program without the commit that it names, and the build id that follows from it."""
    program = BUILD_ID.sub(rb"\1" + bytes(20), program)
    return program.replace(name, bytes(len(name))) if name else program


@functools.cache
def content(path):
    """Hash of a file's content; a program's is the same at each commit that does not change it."""
    data = pathlib.Path(path).read_bytes()
    if data.startswith(b"\x7fELF"):
        data = without_commit(data, commit())
    return hashlib.blake2b(data).hexdigest()


@functools.cache
def tree(name):
    """Hash of all files below a folder of the tree, or of one file of it."""
    top = ROOT / name
    files = (
        [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    )
    return _hash(*(f"{file.relative_to(ROOT)} {content(file)}" for file in files))


@functools.cache
def machine():
    """Hash of what the tools bring and of the versions of Debian's packages. It is the same before and after a run
    that builds programs: their sources belong to it, and not what is there."""
    stamps = ROOT.glob("build/tools/*/.sha256")
    packages = subprocess.run(["dpkg-query", "-W"], capture_output=True, text=True, check=False)
    kernel = os.uname()
    return _hash(
        packages.stdout,
        kernel.release,
        kernel.machine,
        tree("tools/programs"),
        *(f"{s.parent.name} {content(s)}" for s in sorted(stamps)),
    )


@functools.cache
def imported(script):
    """The script and the modules of tests/ and examples/ that it imports, directly or not."""
    found, pending = set(), [script]
    while pending:
        file = pending.pop()
        if file in found:
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for name in names:
                inner = name.replace(".", "/") + ".py"
                places = (file.parent, ROOT / "tests", ROOT / "examples/bookstore", ROOT / "docs/reference")
                pending += [place / inner for place in places if (place / inner).is_file()]
    return frozenset(found)


def included(sources):
    """Sources in C++ and the headers of tests/ and benchmarks/ that they include, directly or not."""
    found, pending = set(), list(sources)
    while pending:
        file = pending.pop()
        if file not in found:
            found.add(file)
            inner = re.findall(r'^#include "(.+)"', file.read_text(), re.M)
            places = (file.parent, ROOT / "tests", ROOT)
            pending += [place / name for name in inner for place in places if (place / name).is_file()]
    return found


def named(program):
    """Parts of the key of a program of ours: the content of what its sources name, or of all that it may read if
    its sources are not known."""
    sources = sources_of_build(program.parents[1]).get(program.name)
    if not sources:
        names, daemons = {"charts", "docs", "examples", "tests/data"}, DAEMONS
    else:
        text = "\n".join(file.read_text() for file in included(sources))
        names, daemons = set(LITERAL.findall(text)), re.findall(r'beside_this_program\("(.+?)"\)', text)
    places = sorted(name for name in names if (ROOT / name).exists())
    beside = [program.parent / name for name in DAEMONS if name in daemons]
    return [*map(tree, places), *(content(file) for file in beside if file.is_file())]


@functools.cache
def literals(script):
    """The strings of a script but its docstrings. The paths that it reads are among them."""
    nodes = [*ast.walk(ast.parse(script.read_text()))]
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    strings = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n".join(node.value for node in strings if node not in docstrings)


def folders_of_data(text):
    """Folders of tests/data that a script names: all of it if the script names tests/data without one of them."""
    text = re.sub(r"""['"] / ['"]""", "/", text)
    folders = [path.name for path in sorted((ROOT / "tests/data").glob("*/"))]
    if re.search(rf"\btests/data\b(?!/({'|'.join(folders)})\b)", text):
        return ["tests/data"]
    return [f"tests/data/{name}" for name in folders if re.search(rf"\bdata/{name}\b", text)]


def programs(entry):
    """The programs of tools/programs that the entry's script or its helpers name."""
    there = {file.name for file in (ROOT / "tools/programs").iterdir()}
    scripts = [pathlib.Path(word) for word in entry.command if word.endswith(".py")]
    text = "\n".join(file.read_text() for script in scripts for file in imported(script))
    return there & set(re.findall(r"build/tools/([a-z0-9.-]+)/", text))


def _hash(*parts):
    digest = hashlib.blake2b()
    for part in parts:
        digest.update(str(part).encode() + b"\0")
    return digest.hexdigest()[:40]


def key(entry):
    """Result: the key of an entry, or None if it always runs."""
    if ALWAYS.match(entry.name) or not entry.command:
        return None
    words = [word.replace(str(ROOT), ".") for word in entry.command]
    environment = [f"{name}={value}".replace(str(ROOT), ".") for name, value in sorted(entry.environment.items())]
    parts = [entry.name, machine(), *words, *environment]
    paths = [pathlib.Path(word) for word in entry.command]
    inside = [path for path in paths if ROOT in path.parents]
    parts += [content(path) for path in inside if path.is_file()]
    parts += [tree(path.relative_to(ROOT)) for path in inside if path.is_dir() and ROOT / "build" not in path.parents]
    script = next((path for path in paths if path.suffix == ".py" and path.is_file()), None)
    if COMPILING.match(entry.name):
        parts += [tree(name) for name in LIBRARY]
    if BUILDING_TESTS.match(entry.name):
        parts += [tree(name) for name in ("docs", "tests")]
    if script:
        sources = imported(script)
        text = "\n".join(file.read_text() for file in sorted(sources))
        paths_read = "\n".join(map(literals, sorted(sources)))
        parts += [f"{file.relative_to(ROOT)} {content(file)}" for file in sorted(sources)]
        parts += [tree(name) for name in DATA if re.search(rf"\b{name}\b", paths_read)]
        parts += [tree(name) for name in PAGES if name in paths_read]
        parts += [tree(name) for name in folders_of_data(text)]
        parts += [
            content(file)
            for file in sorted(script.parent.rglob("*"))
            if file.is_file()
            and file.suffix not in (".py", ".pyc")
            and (file.name not in UNREAD or file.name in paths_read or COMPILING.match(entry.name))
        ]
        for folder in (path for path in paths if path.is_dir() and path.name == "bin"):
            programs = [
                file for file in folder.iterdir() if file.name in DAEMONS or re.search(rf"\b{file.name}\b", text)
            ]
            parts += [f"{file.name} {content(file)}" for file in sorted(programs) if file.is_file()]
    else:
        parts += [part for path in inside if path.parent.name == "bin" for part in named(path)]
    return _hash(*parts)


def known(entries):
    """Result: {entry's name: the key that passed}."""
    folder = directory()
    if folder is None:
        return {}
    keys = {entry.name: key(entry) for entry in entries}
    return {name: each for name, each in keys.items() if each and (folder / each).exists()}


def remember(entries):
    """Keeps that these passed. A cache that cannot be written fails nothing."""
    folder = directory()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            if passed := key(entry):
                (folder / passed).write_text(entry.name + "\n")
    except OSError as failed:
        print(f"results: {folder} could not be written: {failed}")
