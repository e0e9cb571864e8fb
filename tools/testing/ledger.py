"""The ledger: when each entry ran, on which commit, and how it ended; OSM_CACHE_DIR/ledger.tsv.

A result is passed, flaky (at its second run), failed, or known: the entry was skipped (results.py).
"""

import collections
import datetime
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SILENT_DAYS, LOST_DAYS = 14, 30
FLAKY_DAYS = 30  # a second run that was needed counts for so long
TSAN = "tsan."  # begins the names of entries with ThreadSanitizer (cmake/osm_test.cmake)

Row = collections.namedtuple("Row", "date commit entry result seconds")


def path():
    """Result: the file, or None without OSM_CACHE_DIR."""
    cache = os.environ.get("OSM_CACHE_DIR")
    return pathlib.Path(cache, "ledger.tsv") if cache else None


def commit():
    """The commit of the tree, with a mark if the tree differs from it."""
    shown = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return shown.stdout.strip() or "unknown"


def now():
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def append(results):
    """Adds a row for each (entry, result, seconds). A ledger that cannot be written fails nothing."""
    file = path()
    if file is None or not results:
        return
    head = f"{now().isoformat()}\t{commit()}"
    lines = "".join(f"{head}\t{entry}\t{result}\t{seconds:.1f}\n" for entry, result, seconds in results)
    try:
        with file.open("a") as out:
            out.write(lines)  # in one write, since several runs may share the file
    except OSError as failed:
        print(f"ledger: {file} could not be written: {failed}")


def read(file):
    for line in file.read_text().splitlines():
        fields = line.split("\t")
        if len(fields) == len(Row._fields):
            yield Row(datetime.datetime.fromisoformat(fields[0]), *fields[1:])


def problems(rows, today, entries):
    """One line for each of the entries that has not passed for long or was flaky lately.

    An entry without a row counts from the first row of the ledger on. While the build with ThreadSanitizer is not
    configured, its entries are those of the ledger whose twins `entries` has.
    """
    rows = list(rows)
    if not any(name.startswith(TSAN) for name in entries):
        run = {row.entry for row in rows if row.entry.startswith(TSAN)}
        entries = entries | {name for name in run if name.removeprefix(TSAN) in entries}
    passed, flaky, begin = {}, {}, today
    for row in rows:
        begin = min(begin, row.date)
        if row.result in ("passed", "flaky", "known"):
            passed[row.entry] = max(row.date, passed.get(row.entry, row.date))
        if row.result == "flaky" and row.entry in entries and (today - row.date).days < FLAKY_DAYS:
            flaky.setdefault(row.entry, []).append(row)
    for entry in sorted(entries):
        days = (today - passed.get(entry, begin)).days
        if days >= SILENT_DAYS:
            has = f"passed last {days} days ago" if entry in passed else f"has not passed in the ledger's {days} days"
            yield f"ledger: {entry} {has}{', lost' if days >= LOST_DAYS else ''}: run its tier or slice"
    for entry, found in sorted(flaky.items()):
        commits = ", ".join(sorted({row.commit for row in found}))
        yield f"ledger: {entry} needed a second run {len(found)} times in {FLAKY_DAYS} days ({commits}): name its cause"
