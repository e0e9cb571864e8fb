#!/usr/bin/env python3
"""Doxygen's input filter: the house's plain comments as documentation.

usage: comments.py HEADER   (writes to stdout, line for line)

Headers are written for people who read them: `//` above a declaration or behind it, and words such as
"Failure:" and "Thread:" in running text. For Doxygen

- the block at the top becomes the page of the file, and of the type that the file is named after if it
  has no block of its own; a block directly above a declaration is its documentation, a comment behind
  one its `///<`; below a function, its overloads share its block, and so does what
  follows a block that says "All ..." or "this / that";
- the words begin sections (aliases of the Doxyfile);
- a block followed by an empty line, or above something that has a comment behind it, is a heading, and
  stays a comment like everything inside a function's body;
- `namespace osm::inline v1` is shown as what users write: `osm`.
"""

import pathlib
import re
import sys

# "Thread: any." and "Failure (an exception counts as one): logged." begin a section.
SECTION = re.compile(
    r"(?:^|(?<=[.:)] ))(Result|Failure|Thread|Blocking|Lifetime|Precondition)"
    r"((?:, [a-z]+)?(?: \([^)]*\)| [a-z ]{1,40})?): "
)
FOR_TOOLS = re.compile(r"NOLINT|clang-format o")
BODY, DECLARATIONS = "body", "declarations"


def escaped(text):
    """Plain text for Doxygen: nothing in it is a command or a tag; `code` is code."""
    parts = re.split(r"`([^`]+)`", text)
    for number, part in enumerate(parts):
        part = part.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        part = re.sub(r"([\\@#%$])", r"\\\1", part)
        parts[number] = f"<code>{part}</code>" if number % 2 else part
    return "".join(parts)


def documentation(text):
    """One line of a comment, with a command where a section begins."""
    out, at = "", 0
    for found in SECTION.finditer(text):
        title = escaped(found[1] + found[2]).replace(",", "\\,")
        out += escaped(text[at : found.start()]) + f"@section_of{{{title}}} "
        at = found.end()
    return out + escaped(text[at:])


def code_and_comment(line):
    """Splits at the `//` that begins a comment; None without one. String literals are passed over."""
    at = 0
    while at < len(line):
        digit_separator = line[at] == "'" and at and line[at - 1].isalnum()
        if line[at] in "\"'" and not digit_separator:
            end = at + 1
            while end < len(line) and line[end] != line[at]:
                end += 2 if line[end] == "\\" else 1
            at = end
        elif line.startswith("//", at):
            return line[:at], line[at + 2 :].strip()
        at += 1
    return line, None


def function_of(line):
    """The name of the function that a line begins to declare, or None."""
    found = re.match(r"\s*(?!return\b)[\w:<>,&*\s]*?\b([a-z]\w*)\(", line)
    return found and found[1]


class Scopes:
    """Kinds of open braces: of declarations, or of a body."""

    def __init__(self):
        self.open, self.text = [], ""

    def read(self, code):
        if code.lstrip().startswith("#"):
            return
        for char in re.sub(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)'", '""', code) + " ":
            if char == "{":
                self.open.append(self.kind_of(self.text))
            elif char == "}" and self.open:
                self.open.pop()
            self.text = "" if char in "{};" else self.text + char

    @staticmethod
    def kind_of(head):
        head = re.sub(r"^\s*(public|private|protected):", "", head)
        head = re.sub(r"^\s*template\s*<.*?>\s*(?=(?:class|struct|union)\b)", "", head)
        named = re.match(r"\s*(?:inline\s+)?(namespace|class|struct|enum|union|extern)\b", head)
        return DECLARATIONS if named and "(" not in head and "=" not in head else BODY

    def in_body(self):
        return BODY in self.open


class Filter:
    def __init__(self, path):
        self.lines = path.read_text(encoding="utf-8").split("\n")
        # "notifier" → the class Notifier.
        self.type = "".join(word.capitalize() for word in path.stem.split("_"))
        self.page = ""
        self.out, self.scopes = [], Scopes()
        self.column = None  # of a comment behind a declaration, which may go on below
        self.in_hash = False
        self.shared = None  # (indentation, block, function) of the function above

    def run(self):
        at = 0
        while at < len(self.lines):
            code, comment = code_and_comment(self.lines[at])
            if comment is None or code.strip():
                self.declaration(self.lines[at], code, comment)
                at += 1
            elif self.column == len(code):
                self.out.append(f"{code}///< {documentation(comment)}")
                at += 1
            else:
                at = self.block(at)
        return "\n".join(self.out)

    def block(self, start):
        """A comment that stands alone. Returns the number of the line after it."""
        end = start
        while end < len(self.lines) and self.lines[end].lstrip().startswith("//"):
            end += 1
        block = self.lines[start:end]
        texts = [line.strip()[2:].removeprefix(" ") for line in block]
        self.shared = None
        if start == 0:
            texts = [documentation(text) for text in texts]
            self.page = " ".join(text or "<br>" for text in texts)
            self.out += [f"/// @page_of_file {texts[0]}", *(f"/// {text}" for text in texts[1:])]
        elif not self.scopes.in_body() and self.can_be_documented(end):
            texts = [documentation(text) for text in texts]
            indent = " " * (len(block[0]) - len(block[0].lstrip()))
            self.out += [f"{indent}/// {text}".rstrip() for text in texts]
            self.shared = (indent, " ".join(texts), function_of(self.lines[end]))
        else:
            self.out += block
        self.column = None
        return end

    def can_be_documented(self, at):
        """True if line `at` declares something and has no comment behind it."""
        line = self.lines[at] if at < len(self.lines) else ""
        if not line.strip() or line.lstrip().startswith("}"):
            return False
        code, comment = code_and_comment(line)
        return comment is None or bool(FOR_TOOLS.search(comment)) or code.rstrip().endswith("{")

    def declaration(self, line, code, comment):
        inside = self.scopes.in_body()
        first = not self.scopes.text.strip()  # of a declaration
        self.scopes.read(code)
        self.column = None
        behind = comment is not None and not inside and not FOR_TOOLS.search(comment)
        if behind and code.strip() and not code.rstrip().endswith("{") and not code.startswith("}"):
            self.column = len(code)
            line = f"{code}///< {documentation(comment)}"
        elif first and re.match(rf"(class|struct) (\S+ )?{self.type} .*{{", line) and not self.below_block():
            line = f"/** {self.page} */ {line}"
        elif first and not inside and self.shared and not self.below_block():
            line = self.with_shared_block(line)
        if not code.strip() or (first and "(" not in code and not inside):
            self.shared = None
        self.out.append(re.sub(r"\bnamespace osm::inline v1\b", "namespace osm", line))
        if "struct std::hash<" in line:  # whoever needs it has it; Doxygen 1.9 does not understand it
            self.out[-2] = "/** @cond */ " + self.out[-2]
            self.in_hash = True
        elif self.in_hash and line == "};":
            self.out[-1] += " /** @endcond */"
            self.in_hash = False

    def below_block(self):
        return self.out[-1].lstrip().startswith("///")

    def with_shared_block(self, line):
        indent, text, function = self.shared
        here = function_of(line)
        of_all = re.match(r"All\b", text) or " / " in text
        if not here or not line.startswith(indent) or not (of_all or here == function):
            return line
        return f"{indent}/** {text} */ {line.strip()}"


sys.stdout.write(Filter(pathlib.Path(sys.argv[1])).run())
