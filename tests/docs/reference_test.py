#!/usr/bin/python3
"""Doxygen reports nothing, and each public declaration is explained.

usage: reference_test.py DOXYFILE   (its output goes to a temporary directory)
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

DOXYFILE = pathlib.Path(sys.argv.pop(1))


def text_of(element, *children):
    found = (element.find(child) for child in children)
    return " ".join("".join(f.itertext()).strip() for f in found if f is not None).strip()


def words(element):
    return text_of(element, "briefdescription", "detaileddescription")


def place(element):
    at = element.find("location")
    return f"{at.get('file')}:{at.get('line')}"


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("doxygen"):
            raise RuntimeError("doxygen is missing: tools/setup installs it")
        folder = tempfile.TemporaryDirectory(prefix="osm-reference-")
        cls.addClassCleanup(folder.cleanup)
        cls.output = pathlib.Path(folder.name)
        settings = DOXYFILE.read_text() + f"\nOUTPUT_DIRECTORY = {folder.name}\n"
        ran = subprocess.run(["doxygen", "-"], input=settings, capture_output=True, text=True)
        cls.said, cls.code = ran.stdout + ran.stderr, ran.returncode
        cls.compounds = [
            ElementTree.parse(file).getroot().find("compounddef")
            for file in (cls.output / "xml").glob("*.xml")
            if file.name != "index.xml"
        ]
        cls.compounds = [c for c in cls.compounds if c is not None]

    def of_kinds(self, *kinds):
        return [c for c in self.compounds if c.get("kind") in kinds]

    def public_members(self, *kinds):
        """(compound, member) of every class's public part, of the namespaces and of the C header."""
        c_headers = [c for c in self.of_kinds("file") if c.findtext("compoundname").endswith(".h")]
        for compound in [*self.of_kinds("class", "struct", "namespace"), *c_headers]:
            for member in compound.iter("memberdef"):
                if member.get("prot") == "public" and member.get("kind") in kinds:
                    yield compound, member

    def explain(self, undocumented):
        self.assertFalse(undocumented, "\n" + "\n".join(sorted(undocumented)))

    def test_doxygen_warns_of_nothing(self):
        self.assertEqual((self.said, self.code), ("", 0))
        self.assertTrue((self.output / "html/index.html").is_file())

    def test_every_header_class_and_enumeration_says_what_it_is(self):
        things = self.of_kinds("class", "struct", "union")
        self.assertGreater(len(things), 60)
        things += [c for c in self.of_kinds("file") if c.findtext("compoundname").endswith((".hpp", ".h"))]
        things += [member for _, member in self.public_members("enum")]
        self.explain(
            [
                f"{place(t)}: {t.findtext('compoundname') or t.findtext('qualifiedname')}"
                for t in things
                if t.get("prot") != "private" and not words(t)
            ]
        )

    def test_enumerators_are_explained_all_or_none(self):
        """None: a list whose names say it, under an enumeration that says what it lists."""
        silent = []
        for _, enum in self.public_members("enum"):
            unexplained = [v for v in enum.iter("enumvalue") if not words(v)]
            if len(unexplained) < len(list(enum.iter("enumvalue"))):
                silent += [
                    f"{place(enum)}: {enum.findtext('qualifiedname')}::{v.findtext('name')}" for v in unexplained
                ]
        self.explain(silent)

    def test_every_function_says_what_it_does(self):
        functions = [(c, f) for c, f in self.public_members("function") if not is_plain(c, f)]
        self.assertGreater(len(functions), 150)
        self.explain(
            [
                f"{place(f)}: {f.findtext('qualifiedname')}{f.findtext('argsstring')}"
                for _, f in functions
                if not words(f)
            ]
        )

    def test_every_function_that_can_fail_says_how(self):
        silent = []
        for compound, function in self.public_members("function"):
            result = text_of(function, "type")
            if not re.search(r"\bResult<|^Status\b", result) or is_plain(compound, function):
                continue
            if "Failure" not in words(function) + words(compound):
                silent.append(f"{place(function)}: {function.findtext('qualifiedname')}")
        self.explain(silent)

    def test_every_virtual_function_says_who_calls_it(self):
        files = {c.find("location").get("file"): words(c) for c in self.of_kinds("file")}
        silent = []
        for compound, function in self.public_members("function"):
            if function.get("virt") == "non-virtual" or is_plain(compound, function):
                continue
            if function.find("reimplements") is not None:
                continue
            said = words(function) + words(compound) + files.get(function.find("location").get("file"), "")
            if "Thread" not in said:
                silent.append(f"{place(function)}: {function.findtext('qualifiedname')}")
        self.explain(silent)


def is_plain(compound, function):
    """True for copies, destructors, operators, comparisons and overrides, which need no comment."""
    name = function.findtext("name")
    arguments = function.findtext("argsstring") or ""
    return (
        name.startswith(("~", "operator"))
        or arguments.endswith(("=delete", "=default", "override"))
        or name == (compound.findtext("compoundname") or "").split("::")[-1]
        or compound.findtext("compoundname").startswith("std::hash")
        or function.find("reimplements") is not None
    )


if __name__ == "__main__":
    unittest.main()
