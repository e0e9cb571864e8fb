"""The bookstore mesh, running: its machines, proxies and workloads, and what they experience."""

import collections
import json
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests"))  # the network namespaces and the rig are the tests'

from lib.mesh.rig import ADS_PORT, Rig  # noqa: E402
from lib.mesh.xds_client import WorkloadCertificate  # noqa: E402
from lib.net.netns import Switch  # noqa: E402
from lib.net.processes import wait_for  # noqa: E402

SHOP, LEDGER, WAREHOUSE = ("bookstore.bookstore:14001", "ledger.ledger:7000", "bookwarehouse.bookwarehouse:14001")


def machines_of(mesh):
    """[(namespace, name, address)] of the VirtualMachines in a directory of our own YAML."""
    found = []
    for document in (mesh / "machines.yaml").read_text().split("\n---\n"):
        if "kind: VirtualMachine" in document:
            found.append(
                tuple(
                    re.search(rf"^ +{key}: (\S+)$", document, re.M).group(1) for key in ("namespace", "name", "address")
                )
            )
    return found


Call = collections.namedtuple("Call", "at client server version result caller")


class Client:
    """A workload that reports each of its requests as a line of JSON."""

    def __init__(self, machine, server, process):
        self.machine, self.server, self.process = machine, server, process
        self._at = 0
        self.calls = []

    def read(self):
        with open(self.process.log, "rb") as log:
            log.seek(self._at)
            whole, newline, _ = log.read().rpartition(b"\n")
        self._at += len(whole) + len(newline)
        for line in whole.splitlines():
            told = json.loads(line)
            result = str(told["status"]) if told["status"] else told["error"]
            self.calls.append(Call(told["t"], self.machine.name, self.server, told["version"], result, told["caller"]))

    def since(self, when):
        self.read()
        return [call for call in self.calls if call.at >= when]


class Bookstore:
    def __init__(self, programs, keep=False, rig=Rig):
        self.rig = rig(programs, keep)
        self.rig.mesh.copy_from(HERE / "mesh")
        self.clients = {}
        self.machines = self.rig.machines

    def start(self):
        rig, program = self.rig, self.rig.programs.bookstore
        rig.start_controller()
        for ns, name, address in machines_of(HERE / "mesh"):
            rig.add_vm(name, ns, address).bootstrap()
        for machine in self.machines.values():
            machine.start_proxy(wait=False)
        for version in ("v1", "v2"):
            self.machines[f"bookstore-{version}"].run(
                "app",
                program,
                "serve",
                "--listen",
                "127.0.0.1:14001",
                "--service",
                "bookstore",
                "--version",
                version,
                "--restock",
                WAREHOUSE,
            )
        self.machines["bookwarehouse"].run(
            "app", program, "serve", "--listen", "127.0.0.1:14001", "--service", "bookwarehouse"
        )
        self.machines["ledger"].run("app", program, "ledger", "--listen", "127.0.0.1:7000")
        for machine in self.machines.values():
            machine.wait_until_live()
        self._run_client("buyer", "bookbuyer", "bookstore", "buy", SHOP, 20)
        self._run_client("thief", "bookthief", "bookstore", "buy", SHOP, 50)
        self._run_client("writer", "bookbuyer", "ledger", "write", LEDGER, 200)

    def _run_client(self, name, machine, server, role, target, interval_ms):
        process = self.machines[machine].run(
            name, self.rig.programs.bookstore, role, "--target", target, "--interval-ms", interval_ms
        )
        self.clients[name] = Client(self.machines[machine], server, process)

    # -- what is seen ---------------------------------------------------------------------------
    def table(self):
        """[(client, server, version, result, identity the server saw, count, count last second)]"""
        now = time.time()
        counts, recent = collections.Counter(), collections.Counter()
        for client in self.clients.values():
            for call in client.since(0):
                counts[call[1:]] += 1
                if call.at > now - 1:
                    recent[call[1:]] += 1
        return [(*row, counts[row], recent[row]) for row in sorted(counts)]

    def results(self, client, since):
        return collections.Counter(c.result for c in self.clients[client].since(since))

    def share_of(self, version, client, since):
        calls = [c for c in self.clients[client].since(since) if c.result == "200"]
        return len(calls), sum(c.version == version for c in calls) / max(1, len(calls))

    # -- what is done ---------------------------------------------------------------------------
    def certificate_of(self, name):
        """The workload certificate of a machine, taken as a thief with root there would."""
        machine = self.machines[name]
        controller = machine.controller.split(":")[0] if machine.controller else Switch.ADDRESS
        return WorkloadCertificate(machine, controller, ADS_PORT, self.rig.directory)

    def start_load(self):
        spool = self.rig.directory / "load"
        spool.mkdir(exist_ok=True)
        spool.chmod(0o777)
        process = self.machines["bookbuyer"].run(
            "load",
            self.rig.programs.bookstore,
            "load",
            "--http",
            SHOP,
            "--ledger",
            LEDGER,
            "--report",
            spool / "report.json",
        )
        return Load(process, spool / "report.json")

    def rotate(self, common_name):
        return self.rig.osm_json("certificate", "rotate", common_name)

    def wait_for_certificate(self, machine, serial):
        """Until the proxy of a machine serves the certificate with this serial number."""

        def served():
            certificates = json.loads(self.machines[machine].admin("/certs")[1])["certificates"]
            return serial.lower().lstrip("0") in {
                c["serial_number"].lower().lstrip("0") for group in certificates for c in group["cert_chain"]
            }

        wait_for(f"{machine} serves certificate {serial}", served, 5)

    def wait_until_synced(self, timeout=20):
        def synced():
            proxies = self.rig.admin("GET", "/v1/proxies")["proxies"]
            return len(proxies) == len(self.machines) and all(
                p["types"][kind]["state"] in (("SYNCED",) if kind in ("CDS", "LDS") else ("SYNCED", "NOT SENT"))
                for p in proxies
                for kind in p["types"]
            )

        wait_for("every proxy is connected and in sync", synced, timeout)


class Load:
    """The load generator's report, and whether a window of it was without a fault."""

    BEFORE, AFTER = 5, 30
    RATE, CONNECTIONS, STREAMS = 200, 8, 4

    def __init__(self, process, path):
        self.process, self.path = process, path

    def read(self):
        return json.loads(self.path.read_text())

    def judge(self, event):
        """Faults from 5 s before to 30 s after an event, as sentences, and the totals."""
        report = self.read()
        begin, end = event - self.BEFORE, event + self.AFTER
        faults = [f"{f['what']} {f['t'] - event:+.2f} s" for f in report["failures"] if begin <= f["t"] <= end]
        whole = {s["t"]: s for s in report["seconds"] if begin <= s["t"] and s["t"] + 1 <= end}
        expected = range(int(begin) + 1, int(end))
        for second in expected:
            seen = whole.get(second, {"requests": 0, "lines": 0})
            if seen["requests"] < self.RATE / 2:
                faults.append(f"only {seen['requests']} requests in the second {second - event:+.0f} s")
            if seen["lines"] < self.STREAMS:
                faults.append(f"{seen['lines']} TCP lines/s {second - event:+.0f} s")
        average = sum(whole[s]["requests"] for s in expected if s in whole) / len(expected)
        if average < self.RATE:
            faults.append(f"{average:.0f} requests/s on average")
        for what, count in (("http", self.CONNECTIONS), ("tcp", self.STREAMS)):
            if report[f"{what}_connections"] != count:
                faults.append(f"{report[f'{what}_connections']} {what} connections were needed, not {count}")
        return faults, {key: sum(s[key] for s in whole.values()) for key in ("requests", "lines")}
