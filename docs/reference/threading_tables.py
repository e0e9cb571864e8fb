#!/usr/bin/env python3
"""Makes the tables of docs/threading.md from the words Thread: and Blocking: in include/osm.

usage: threading_tables.py   (writes the page with these tables to stdout)

A comment on the page says which types a table shows, and the table follows it:

    <!-- contracts of Clock, certificate::Issuer: made by `tools/docs --threading` -->
    <!-- contracts of all others: made by `tools/docs --threading` -->

The second table has every function of the others that does not run in any thread without blocking. An empty
cell: the contract does not say.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/threading.md"
TABLE = re.compile(r"(<!-- contracts of ([\w:, ]+): made by [^\n]*-->\n)(?:\|[^\n]*\n)*")
NOT_SHOWN = ("testing", "detail")  # folders of include/osm
WORDS = re.compile(r"(?<![\w`])(Thread, blocking|(?:Failure, )?thread, blocking|Thread|Blocking): ")
REFERENCE = re.compile(r"as (\w+)(?:\(\))?(,.*)?$")
TYPE = re.compile(r"\s*(?:class|struct) (?:OSM_API |\[\[\w+\]\] )?(\w+)[^;]*{$")
SHARED = re.compile(r"(All|Both|For all)\b")  # begins a block about several declarations


class Contract:
    """The thread and the blocking that a comment states; "" for what it does not state."""

    def __init__(self, thread="", blocking=""):
        self.thread, self.blocking = thread, blocking

    @classmethod
    def of(cls, comment):
        text, result = re.sub(r"\s+", " ", comment or "").strip(), cls()
        for found in WORDS.finditer(text):
            value = re.split(r"\.(?= |$)", text[found.end() :])[0]  # the first sentence
            if "locking" in found[1]:
                result.blocking = value
            if "hread" in found[1]:
                result.thread = value
        return result

    def __bool__(self):
        return bool(self.thread or self.blocking)

    def over(self, outer):
        return Contract(self.thread or outer.thread, self.blocking or outer.blocking)

    def resolved(self, contracts):
        """Both parts, if this contract is another function's: "as load()"."""
        found = REFERENCE.match(self.thread)
        other = found and contracts.get(found[1])
        if not other:
            return self
        blocking = other.blocking + (found[2] or "") if self.blocking in ("", self.thread) else self.blocking
        return Contract(other.thread, blocking)

    def cells(self, is_callback):
        thread, blocking = self.thread, re.sub(r" \(.*\)$", "", self.blocking)
        if found := re.match(r"(.*); must not block$", thread):
            whose = "" if is_callback else "callback: "
            thread, blocking = whose + found[1], "it must not" if is_callback else "the callback must not"
        return thread, blocking


def function_of(declaration, scope):
    """(the name of a declared function, or of one that a host sets; whether a host sets it)."""
    text = re.sub(r"\[\[.*?\]\]|\b(OSM_API|virtual|static|constexpr|explicit|inline) ", "", declaration).strip()
    if text.startswith(("using ", "friend ", "template", "#", "return ")) or re.search(r"operator(?!\(\))", text):
        return None, False
    if callback := re.match(r"std::function<.*>\s+(\w+)\s*(?:\{\}|= nullptr)?;", text):
        return f"`{callback[1]}`", True
    while (plain := re.sub(r"<[^<>()]*>", "", text)) != text:
        text = plain
    found = re.search(r"(operator\(\)|~?\w+)\s*\(", text)
    name = found and found[1]
    return {scope: "constructor", f"~{scope}": "destructor"}.get(name, name and f"`{name}`"), False


def declarations_of(lines):
    """(path of scopes, declaration, comment above it) outside of bodies; a type's ends in "{".

    The comment of the file has no declaration."""
    scopes, space, comment, shared, at = [], "", "", "", 0
    while at < len(lines):
        line, at = lines[at], at + 1
        margin = "  " * len(scopes)
        if re.match(rf"{margin}//", line):
            comment, shared = f"{comment} {line.strip()[2:].strip()}".strip(), ""
            continue
        if re.match(rf"{margin}( |}}(?!;)|template <.*>$)", line):
            continue  # a body; the declaration of a template follows
        if opened := re.match(r"namespace osm::inline v1(?:::([\w:]+))? {", line):
            space = opened[1] or ""
        elif scopes and line.startswith(margin[2:] + "};"):
            scopes.pop()
        elif comment and not space and not scopes and (not line or line.startswith("#")):
            yield [], "", comment
        elif re.match(rf"{margin}[\w~\[]", line) and not re.match(r"\s*(public|private|protected):", line):
            while not re.search(r"[;{}]\s*(//.*)?$", line) and at < len(lines):
                line, at = f"{line} {lines[at].strip()}", at + 1
            yield [*filter(None, [space]), *scopes], line, comment or shared
            if named := TYPE.match(line):
                scopes.append(named[1])
            elif SHARED.match(comment):
                shared = comment  # until another comment or an empty line
        if not line:
            shared = ""
        comment = ""


def contracts_of(header):
    """(scope, function or "all", contract, whether a host sets it) of a header, in its order."""
    types, above = {}, Contract()
    for scopes, declaration, comment in declarations_of(header.read_text(encoding="utf-8").split("\n")):
        scope, contract = "::".join(scopes), Contract.of(comment)
        if contract.thread == "as above":
            contract = above
        named = TYPE.match(declaration)
        if not declaration:
            types[""] = types.get("") or contract  # of the whole file
        elif named:
            inner = "::".join([*scopes, named[1]])
            types[inner] = contract.over(types.get(scope) or types.get("") or Contract())
            if types[inner]:
                yield inner, "all", types[inner], False
        elif contract:
            name, is_callback = function_of(declaration, scopes[-1] if scopes else "")
            if name:
                above = contract.over(types.get(scope) or types.get("") or Contract())
                yield scope, name, above, is_callback


def all_contracts():
    """(scope, header) → {(thread, blocking): functions}."""
    headers = [h for h in sorted((ROOT / "include/osm").rglob("*.hpp")) if h.parent.name not in NOT_SHOWN]
    listed = [(h.relative_to(ROOT / "include"), contract) for h in headers for contract in contracts_of(h)]
    by_name = {name.strip("`"): contract for _, (_, name, contract, _) in reversed(listed)}
    found = {}
    for header, (scope, name, contract, is_callback) in listed:
        here = {n.strip("`"): c for h, (_, n, c, _) in reversed(listed) if h == header}
        cells = contract.resolved(by_name | here).resolved(by_name | here).cells(is_callback)
        functions = found.setdefault((scope, header), {}).setdefault(cells, [])
        if name not in functions and "all" not in functions:
            functions.append(name)
    return found


def table(contracts, names):
    """The rows of the types `names`; of all that no other table has, without `names`."""
    text = "| Type or header | Function | Thread | Blocking |\n|---|---|---|---|\n"
    shown = {name for _, listed in TABLE.findall(PAGE.read_text(encoding="utf-8")) for name in listed.split(", ")}
    chosen = [(key, key[0] not in shown) for key in contracts] if not names else []
    for name in names:
        keys = [key for key in contracts if key[0] == name]
        if not keys:
            sys.exit(f"threading_tables.py: include/osm has no contract of {name}")
        chosen += [(key, True) for key in keys]
    for (scope, header), is_shown in chosen:
        title = scope if re.search(r"(^|::)[A-Z]", scope) else str(header)
        cell = f"[`{title}`](../include/{header})"
        for (thread, blocking), functions in contracts[scope, header].items():
            plain = re.match(r"(any(, concurrently)?)?$", thread) and re.match(r"(no\b|$)", blocking)
            if is_shown and (names or not plain):
                rest = len(contracts[scope, header]) > 1 and functions == ["all"]
                text += f"| {cell} | {'the rest' if rest else ', '.join(functions)} | {thread} | {blocking} |\n"
                cell = ""
    return text


def page():
    contracts = all_contracts()

    def made(found):
        return found[1] + table(contracts, [] if found[2] == "all others" else found[2].split(", "))

    return TABLE.sub(made, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.stdout.write(page())
