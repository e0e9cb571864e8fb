"""Files of objects as people and other programs write them. Each is one that a mesh reads: its TrafficTarget
lets shop/web make one more request to shop/api, of lib.mesh.objects.shop().
"""

import collections
import json
import pathlib

import yaml

from lib.mesh import objects

CRDS = pathlib.Path(__file__).parents[3] / "charts/osm/crds"
CHARACTER = "\U0001f600"  # beyond U+FFFF: two escapes in JSON

# `name`: of the file. `path`: what it lets shop/web request. `target`: the name of its TrafficTarget.
Input = collections.namedtuple("Input", "name text path target")


def _grant(name, path, note=None):
    made = [
        objects.routes("shop", name, match={"pathRegex": path, "methods": ["GET"]}),
        objects.target("shop", name, "api", [("shop", "web")], ("HTTPRouteGroup", name, ["match"])),
    ]
    for one in made if note else ():
        one["metadata"]["annotations"] = {"note": note}
    return made


def accepted():
    """{what is unusual: Input}."""

    def listed(made):
        return {"apiVersion": "v1", "items": made, "kind": "List", "metadata": {"resourceVersion": ""}}

    def lines(made, **how):
        return "\n".join(json.dumps(one, **how) for one in made) + "\n"

    rows = (
        ("names of 64 characters", "n64.yaml", "n" * 64, yaml.safe_dump_all),
        ("names of 253 characters", "n253.yaml", "m" * 253, yaml.safe_dump_all),
        ("a List", "list.yaml", "listed", lambda made: yaml.safe_dump(listed(made))),
        ("a List in JSON", "list.json", "listed-json", lambda made: json.dumps(listed(made), indent=4)),
        ("a JSON object in each line", "lines.json", "lines", lines),
        ("indented JSON objects", "indented.json", "indented", lambda made: lines(made, indent=4)),
        ("escapes beyond U+FFFF", "escapes.json", "escapes", lines),
    )
    found = {}
    for what, file, name, written in rows:
        path = "/of/" + file.replace(".", "-")
        made = _grant(name, path, CHARACTER if what.startswith("escapes") else None)
        found[what] = Input(file, written(made), path, f"TrafficTarget shop/{name}")
    assert "\\ud83d\\ude00" in found["escapes beyond U+FFFF"].text
    return found


def namespaced_kinds():
    """(apiVersion, kind) of each kind whose objects have a namespace."""
    found = [("v1", "Service"), ("v1", "ServiceAccount")]
    for file in sorted(CRDS.glob("*.yaml")):
        for made in yaml.safe_load_all(file.read_text()):
            spec = made["spec"]
            version = next(one["name"] for one in spec["versions"] if one["storage"])
            if spec["scope"] == "Namespaced":
                found.append((f"{spec['group']}/{version}", spec["names"]["kind"]))
    return found


def without_namespace(api_version, kind):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "lost"}}
