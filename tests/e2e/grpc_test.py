#!/usr/bin/python3
"""A gRPC-Go client and server are in the mesh without Envoy, beside Envoys: mutual TLS, authorization by
identity and method, also of a caller that dials the server past the mesh's lists, and shares of a split
hold. A caller without a certificate gets a TLS alert, and renewed certificates fail no call.
"""

import collections
import json
import os
import pathlib
import ssl
import sys

from lib.mesh import meshcase, objects
from lib.mesh.authority import openssl
from lib.mesh.renewal import renew
from lib.mesh.rig import APP_UID
from lib.net import http2
from lib.net.processes import NotYet, wait_for

PROGRAM = pathlib.Path(
    os.environ.get("OSM_GRPC", pathlib.Path(__file__).resolve().parents[2] / "build/tools/grpc/bin/grpc")
)
PORT = meshcase.PORT
LIBRARY, FRONTED, APEX = (f"{name}.shop:{PORT}" for name in ("shop-v1", "shop-v2", "shop"))
IDENTITY = "spiffe://cluster.local/ns/{}/sa/{}"
WHISPER = ("-method", "/osm.test.Echo/Whisper")
OK, PERMISSION_DENIED = 0, 7  # gRPC's statuses
# gRPC waits 15 s for a listener before it takes it for missing.
PATIENT = ("-timeout", "30s")


class Grpc(meshcase.MeshCase):
    """v1 is a server of the library, v2 one behind Envoy; `client` calls by the library, `fronted`
    through Envoy, and no policy names `stranger`, which has the library too."""

    def setUp(self):
        super().setUp()
        if not PROGRAM.exists():
            sys.exit(f"{PROGRAM} is missing: tools/setup --grpc builds it")
        self.client = self.add_machine("client", "10.200.0.11")
        self.v1 = self.add_machine("v1", "10.200.0.12", "shop", {"app": "shop", "version": "v1"})
        self.v2 = self.add_machine("v2", "10.200.0.13", "shop", {"app": "shop", "version": "v2"})
        self.fronted = self.add_machine("fronted", "10.200.0.14")
        self.stranger = self.add_machine("stranger", "10.200.0.15")
        self.rig.mesh.write(
            "services.yaml",
            self.service("shop", "10.96.0.20", {"app": "shop"}),
            self.service("shop-v1", "10.96.0.21", {"version": "v1"}),
            self.service("shop-v2", "10.96.0.22", {"version": "v2"}),
            objects.routes("shop", "routes", say={"pathRegex": "/osm.test.Echo/Say"}),
            *(
                objects.target(
                    "shop",
                    version,
                    version,
                    [("client", "client"), ("fronted", "fronted")],
                    ("HTTPRouteGroup", "routes", ["say"]),
                )
                for version in ("v1", "v2")
            ),
        )
        self.write_split(shop_v1=1, shop_v2=3)
        self.rig.start_controller()
        for machine in (self.client, self.v1, self.stranger):
            self.join(machine)
        for machine in (self.v2, self.fronted):
            machine.start_proxy()
        self.server = self.grpc(self.v1, "server", "-serve", f"0.0.0.0:{PORT}", "-name", "v1")
        self.grpc(self.v2, "server", "-serve", f"127.0.0.1:{PORT}", "-name", "v2")

    @staticmethod
    def service(name, cluster_ip, selector):
        made = objects.service("shop", name, cluster_ip, PORT, protocol="grpc", selector=selector)
        made["spec"]["ports"][0]["name"] = "grpc-xds"
        return made

    def write_split(self, **weights):
        self.rig.mesh.write("split.yaml", objects.split("shop", "shop", "shop.shop.svc", **weights))

    def join(self, machine):
        """As docs/grpc.md says: files of the application's user, and no interception."""
        self.rig.osm(
            "vm",
            "bootstrap",
            machine.name,
            "-n",
            machine.ns,
            "--controller",
            self.rig.ads_address,
            "--out",
            machine.directory,
            "--owner",
            APP_UID,
            "--grpc",
        )
        machine.namespace.set_hosts((machine.directory / "hosts").read_text())
        self.assertEqual(renew(machine)["result"], "workload certificate replaced")
        for name in ("workload_key.pem", "workload_cert.pem", "workload_roots.pem"):
            status = (machine.directory / name).stat()
            self.assertEqual((status.st_mode & 0o777, status.st_uid), (0o600, APP_UID), name)

    def library(self, machine):
        return (machine.directory / "grpc_bootstrap.json").exists()

    def command(self, machine, *flags):
        program = str(self.rig.programs.reachable(PROGRAM, self.rig.directory))
        if not self.library(machine):
            return ("/usr/bin/env", program, *flags)
        return ("/usr/bin/env", f"GRPC_XDS_BOOTSTRAP={machine.directory}/grpc_bootstrap.json", program, "-xds", *flags)

    def grpc(self, machine, name, *flags):
        return machine.run(name, *self.command(machine, *flags))

    def call(self, machine, target, *flags):
        """Results of calls that one process makes, by default one."""
        scheme = "xds:///" if self.library(machine) else "dns:///"
        ran = machine.namespace.run(
            "setpriv",
            f"--reuid={APP_UID}",
            f"--regid={APP_UID}",
            "--clear-groups",
            *self.command(machine, "-call", scheme + target, *flags),
        )
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def wait_for_code(self, code, machine, target, *flags):
        def seen():
            (result,) = self.call(machine, target, *flags)
            if result["code"] != code:
                raise NotYet(result)
            return result

        return wait_for(f"{machine.name} gets {code} from {target}", seen, 30)

    def wait_for_calls(self):
        for caller in (self.client, self.fronted):
            for target in (LIBRARY, FRONTED):
                self.wait_for_code("OK", caller, target)

    def test_libraries_and_envoys_call_each_other_with_mutual_tls(self):
        for target, version in ((LIBRARY, "v1"), (FRONTED, "v2")):
            with self.subTest(f"a library calls {target}"):
                self.wait_for_code("OK", self.client, target)
                (result,) = self.call(self.client, target)
                self.assertEqual(result["answer"]["server"], version)
                self.assertEqual(result["server_identity"], IDENTITY.format("shop", version))
        with self.subTest("an Envoy calls a library, which sees the caller's identity"):
            self.wait_for_code("OK", self.fronted, LIBRARY)
            (result,) = self.call(self.fronted, LIBRARY)
            self.assertEqual(result["answer"]["caller"], IDENTITY.format("fronted", "fronted"))
        with self.subTest("a library's caller is its workload"):
            (result,) = self.call(self.client, LIBRARY)
            self.assertEqual(result["answer"]["caller"], IDENTITY.format("client", "client"))
        with self.subTest("what no rule allows is denied"):
            for caller in (self.client, self.fronted):
                (result,) = self.call(caller, LIBRARY, *WHISPER)
                self.assertEqual(result["code"], "PermissionDenied", result)
            (result,) = self.call(self.client, FRONTED, *WHISPER)
            self.assertNotEqual(result["code"], "OK")
        with self.subTest("a caller without a TrafficTarget is told of no server"):
            for target in (LIBRARY, FRONTED):
                (result,) = self.call(self.stranger, target, *PATIENT)
                self.assertEqual(result["code"], "Unavailable", result)
        with self.subTest("the server's RBAC decides by identity about a caller that knows its address"):
            for caller, status in ((self.client, OK), (self.stranger, PERMISSION_DENIED)):
                identity = openssl(
                    "x509", "-in", caller.directory / "workload_cert.pem", "-noout", "-ext", "subjectAltName"
                )
                self.assertIn(IDENTITY.format(caller.name, caller.name), identity)
                self.assertEqual(self.dial(caller).status, status, caller.name)
        with self.subTest("a connection without a certificate is refused"):
            refusal = self.refusal_without_certificate()
            self.assertEqual(refusal.reason, "TLSV13_ALERT_CERTIFICATE_REQUIRED", refusal)
        with self.subTest("a TrafficTarget that goes takes the server away"):
            self.drop_target("v1")
            self.wait_for_code("Unavailable", self.client, LIBRARY, *PATIENT)

    def drop_target(self, version):
        path = self.rig.mesh.path / "services.yaml"
        kept = [json.loads(text) for text in path.read_text().split("\n---\n")]
        self.rig.mesh.write(
            "services.yaml",
            *(o for o in kept if not (o["kind"] == "TrafficTarget" and o["metadata"]["name"] == version)),
        )

    def dial(self, caller):
        """How a call ends that goes to v1's address with the caller's files, past the mesh's lists."""
        identity = [str(caller.directory / f"workload_{part}.pem") for part in ("cert", "key")]
        plain = caller.namespace.connect(self.v1.address, PORT, timeout=20)
        with http2.Connection(http2.client_context(None, identity).wrap_socket(plain)) as connection:
            return connection.end(connection.open("/osm.test.Echo/Say", b"", end=True))

    def refusal_without_certificate(self):
        """The server's alert. TLS 1.3 sends it after the client's handshake is complete."""
        plain = self.client.namespace.connect(self.v1.address, PORT, timeout=20)
        with http2.client_context().wrap_socket(plain) as secured:
            with self.assertRaises(ssl.SSLError) as raised:
                for _ in range(2):  # the settings of HTTP/2 may come first
                    self.assertNotEqual(secured.recv(100), b"", "closed without an alert")
                self.fail("the server went on")
            return raised.exception

    def test_a_split_and_its_change_show_at_libraries(self):
        self.wait_for_calls()
        self.wait_for_code("OK", self.client, APEX)

        def shares():
            results = self.call(self.client, APEX, "-calls", "400", "-pause", "1ms")
            self.assertEqual({r["code"] for r in results}, {"OK"})
            return collections.Counter(r["answer"]["server"] for r in results)

        seen = shares()  # 100 and 300 of 400 are expected; the bounds are six standard deviations
        self.assertTrue(48 <= seen["v1"] <= 152, seen)
        self.write_split(shop_v1=1, shop_v2=0)
        wait_for("everything goes to v1", lambda: shares() == {"v1": 400}, 30)

    def test_renewed_certificates_fail_no_call(self):
        self.wait_for_calls()
        before = {m.name: (m.directory / "workload_cert.pem").read_text() for m in (self.client, self.v1)}
        loads = [
            self.grpc(self.client, f"load-{i}", "-call", f"xds:///{target}", "-calls", "0")
            for i, target in enumerate((LIBRARY, FRONTED))
        ]
        wait_for("the load runs", lambda: all(len(self.lines(p)) > 20 for p in loads))
        for machine in (self.client, self.v1):
            self.assertEqual(renew(machine, "--force")["result"], "renewed")
            self.assertNotEqual((machine.directory / "workload_cert.pem").read_text(), before[machine.name])
        # The files are read every 10 s: a new process of each side, and the old ones go on.
        done = [len(self.lines(p)) for p in loads]
        self.wait_for_code("OK", self.client, LIBRARY)
        wait_for("calls after it", lambda: all(len(self.lines(p)) > n + 600 for p, n in zip(loads, done)), 60)
        for load in loads:
            self.assertEqual({line["code"] for line in self.lines(load)}, {"OK"}, load.tail())
        self.assertEqual(renew(self.client)["result"], "current")

        with self.subTest("with them the libraries come back to another controller"):
            self.rig.stop_controller()
            self.rig.start_controller()
            wait_for("all are connected", lambda: set(self.proxies()) >= {"client", "v1", "v2"}, 60)
            self.assertEqual(self.proxies()["client"]["xds"], "sotw")
            for load in loads:
                self.assertEqual({line["code"] for line in self.lines(load)}, {"OK"}, load.tail())

    @staticmethod
    def lines(process):
        """The whole lines that a client printed."""
        return [
            json.loads(line) for line in process.text().splitlines(True) if line.startswith("{") and line.endswith("\n")
        ]


if __name__ == "__main__":
    meshcase.main()
