#!/usr/bin/env python3
"""Makes the manual pages of the programs from what they print for --help, with help2man.

usage: man_pages.py PROGRAMS DIRECTORY   (writes osm.1, osm-controller.8 and osm-injector.8)
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from cli_page import help_of, subcommands

PAGES = {
    "osm": (1, "inspect and manage a service mesh", "osm-controller(8), osm-injector(8)"),
    "osm-controller": (8, "control plane of a service mesh", "osm(1), osm-injector(8)"),
    "osm-injector": (8, "gives the pods of a service mesh their sidecars", "osm(1), osm-controller(8)"),
}
FILES = {
    "osm-controller": r"""[FILES]
.TP
.I /etc/osm/controller.env
Flags that osm-controller.service gives.
.TP
.I /etc/osm/mesh
The mesh's objects, in that unit.
.TP
.I /var/lib/osm
State in that unit: the CA, the record of root rotations, the admin socket.
"""
}


def literal(text):
    """Text as it is, for troff."""
    lines = (line.replace("\\", r"\e").replace("-", r"\-") for line in text.rstrip().splitlines())
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in lines)


def commands(directory, *words):
    """The sections of all subcommands."""
    for name in subcommands(help_of(directory, *words)):
        text = help_of(directory, *words, name)
        yield f'.SS "{" ".join((*words, name))}"\n.nf\n{literal(text)}\n.fi\n'
        yield from commands(directory, *words, name)


def write(programs, directory, name):
    section, summary, others = PAGES[name]
    said = subprocess.run([programs / name, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"\d+\.\d+\.\d+", said.stdout)[0]
    with tempfile.NamedTemporaryFile("w", suffix=".h2m") as more:
        more.write(FILES.get(name, ""))
        inner = "".join(commands(programs, name))
        if inner:
            more.write(f"[COMMANDS]\n{inner}")
        more.write(f"[SEE ALSO]\n{others}\n")
        more.flush()
        subprocess.run(
            [
                "help2man",
                "--no-info",
                f"--section={section}",
                f"--name={summary}",
                "--source=libosm",
                f"--version-string={name} {version}",
                f"--include={more.name}",
                f"--output={directory / f'{name}.{section}'}",
                programs / name,
            ],
            check=True,
        )


if __name__ == "__main__":
    PROGRAMS, DIRECTORY = map(pathlib.Path, sys.argv[1:])
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        write(PROGRAMS.resolve(), DIRECTORY, page)
