#!/usr/bin/env python3
"""Makes docs/cli.md from what the programs print for --help.

usage: cli_page.py DIRECTORY   (with osm, osm-controller, osm-injector and osm-cni; writes to stdout)
"""

import pathlib
import re
import subprocess
import sys

PROGRAMS = ["osm", "osm-controller", "osm-injector", "osm-cni"]
HEAD = """\
# Commands and flags

<!-- Made by `tools/docs --cli` from the programs' --help. Edit the texts in daemons/. -->
"""


def help_of(directory, program, *words):
    """Output of `program words... --help`, with the program's name instead of its path."""
    path = pathlib.Path(directory).resolve() / program
    ran = subprocess.run([path, *words, "--help"], capture_output=True, text=True, check=True)
    return ran.stdout.replace(f"{path.parent}/", "")


def subcommands(text):
    """The names under `Subcommands:`; they are indented by two spaces, their descriptions by more."""
    found = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.M)
    return re.findall(r"^  ([a-z_-]+)", found[1], re.M) if found else []


def sections(directory, *words):
    """The section of a command, then those of its subcommands."""
    text = help_of(directory, *words)
    yield f"## {' '.join(words)}\n\n```text\n{text.rstrip()}\n```\n"
    for name in subcommands(text):
        yield from sections(directory, *words, name)


def page(directory):
    every = [section for program in PROGRAMS for section in sections(directory, program)]
    names = [section.split("\n", 1)[0][3:] for section in every]
    index = "\n".join(f"- [`{name}`](#{name.replace(' ', '-')})" for name in names)
    return "\n".join([HEAD, index, "", *every])


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1]))
