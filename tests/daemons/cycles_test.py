#!/usr/bin/python3
"""The controller starts and stops fifty times, cleanly; under a sanitizer, without its complaint.

usage: cycles_test.py --bin DIRECTORY
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

ROUNDS = 50
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {
    "name": "shop", "labels": {"openservicemesh.io/monitored-by": "osm"}}}


def started(controller):
    """The log record that says where it listens."""
    for line in controller.stderr:
        record = json.loads(line)
        if record.get("message") == "osm-controller started":
            return record
    sys.exit("the controller ended before it had started")


def cycle(program, mesh, state, how, wait_until_ready):
    """One life; every line of its log."""
    controller = subprocess.Popen(
        [program, "--mesh-dir", mesh, "--state-dir", state, "--ads-address", "127.0.0.1:0",
         "--http-address", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    try:
        record = started(controller)
        while wait_until_ready:
            try:
                urllib.request.urlopen(f"http://{record['http_address']}/health/ready", timeout=5)
                break
            except urllib.error.HTTPError as not_ready:
                if not_ready.code != 503:
                    raise
        controller.send_signal(how)
        _, rest = controller.communicate(timeout=20)
    finally:
        controller.kill()
    return controller.returncode, rest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    program = parser.parse_args().bin / "osm-controller"
    with tempfile.TemporaryDirectory(prefix="osm-cycles-") as directory:
        mesh, state = pathlib.Path(directory) / "mesh", pathlib.Path(directory) / "state"
        mesh.mkdir()
        (mesh / "mesh.yaml").write_text(json.dumps(NAMESPACE))
        for number in range(ROUNDS):
            # Some lives end before the mesh was read.
            how = signal.SIGTERM if number % 2 else signal.SIGINT
            status, log = cycle(program, mesh, state, how, wait_until_ready=number % 5 != 0)
            if status != 0 or "Sanitizer" in log or "runtime error" in log:
                sys.exit(f"life {number} ended with {status}:\n{log}")
    print(f"{ROUNDS} lives")


main()
