#!/usr/bin/env python3
"""A mesh moves from the real OSM v1.2.4 by the commands of docs/migrate-from-osm.md: calls work in both
directions, exact accounts are let in, and the mesh rolls back and ends the move.
"""

import base64
import json
import re
import ssl
import subprocess
import sys
import threading
import time

from lib.kube import kubecase, mesh, osm_v1
from lib.kube import kubeobjects as k8s
from lib.kube.cluster import ROOT, kubectl_program
from lib.mesh import meshcase, objects
from lib.mesh.authority import Authority
from lib.net.processes import NotYet, wait_for

PAGE = ROOT / "docs/migrate-from-osm.md"
CONFIGS = "meshconfigs.config.openservicemesh.io"
SHOP, BANK = "shop.shop:80/x", "bank.bank:80/x"
REFUSED = 0  # in place of a status: the handshake failed
RESTART = 30  # seconds of a restart in OSM v1.2 within which requests may fail


def commands_of(heading):
    """The commands of a section of the page, in their order."""
    text = PAGE.read_text()
    section = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    assert section, f"{PAGE} has no section {heading}"
    return "\n".join(re.findall(r"^ *```sh\n(.*?)^ *```", section[2], re.M | re.S))


class Calls:
    """Calls from the pod of a namespace to a Service, one after another, until the block ends.
    `failures`: (time, status, body) of those that were not answered 200."""

    def __init__(self, case, source, url, interval=0.02):
        self.url, self.count, self.failures = url, 0, []
        self._pod, self._interval, self._end = case.pod_of(source), interval, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._end.wait(self._interval):
            begun = time.time()
            try:
                answer = self._pod.get(self.url, timeout=10)
            except OSError as failed:
                answer = None, repr(failed)
            self.count += 1
            if answer[0] != 200:
                self.failures.append((round(begun, 2), *answer))

    def wait_for(self, more):
        """Until `more` calls from now are over."""
        wanted = self.count + more
        wait_for(f"{more} calls", lambda: self.count >= wanted, 120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


class MoveTest(kubecase.KubeCase):
    """Namespaces `shop` and `bank`: an app in each, whose account may call the other's."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        envoy = meshcase._programs.envoy
        cls.agent.images.update({**mesh.images(meshcase._programs), **osm_v1.images(envoy)})
        cls.mesh = mesh.Mesh(cls.cluster, cls.agent)
        begun = time.monotonic()
        osm_v1.install(cls.cluster)
        print(f"OSM v1.2 was up {time.monotonic() - begun:.1f} s later", file=sys.stderr)

    @classmethod
    def pod_of(cls, ns, app=None):
        """The newest pod of an app that is ready; its namespace's name if it has none."""
        pods = sorted(
            (
                p
                for p in cls.pods(ns, app or ns)
                if any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))
            ),
            key=lambda p: p["metadata"]["creationTimestamp"],
        )
        return cls.mesh.run_of(pods[-1])

    def run_page(self, heading, expect=0, **names):
        """Runs a section of the page as an operator does. `names`: {namespace on the page: in the
        test}. `expect`: the exit code, if it matters."""
        script = commands_of(heading)
        for name, ours in names.items():
            script = re.sub(rf"\b{name}\b", ours, script)
        work = self.rig.directory / "operator"
        work.mkdir(exist_ok=True)
        programs = work / "bin"
        if not programs.exists():
            programs.mkdir()
            (programs / "kubectl").symlink_to(kubectl_program())
            (programs / "osm").symlink_to(meshcase._programs.osm)
        ran = subprocess.run(
            self.cluster.namespace.command(
                "env",
                f"HOME={work}",
                f"KUBECONFIG={self.cluster.kubeconfig}",
                f"PATH={programs}:/usr/bin:/bin",
                "bash",
                "-euc",
                f"cd {work}\n{script}",
            ),
            capture_output=True,
            text=True,
            timeout=240,
        )
        if expect is not None:
            self.assertEqual(ran.returncode, expect, f"{script}\n{ran.stdout}\n{ran.stderr}")
        return ran

    def wait_for_answer(self, ns, status, url, app=None, timeout=60):
        def seen():
            got = self.pod_of(ns, app).get(url)
            if got[0] != status:
                raise NotYet(got)
            return got[1]

        return wait_for(
            f"{ns}/{app or ns} gets {status} from {url}",
            seen,
            timeout,
            interval=0.2,
            retry=(ConnectionError, IndexError),
        )

    def test_a_mesh_moves_namespace_by_namespace(self):
        self.install_apps()
        self.every_call_is_answered()
        self.check_the_dump()
        secrets = self.bootstrap_secrets("bank")
        self.assertEqual(len(secrets), 2)
        self.run_page("Install beside OSM v1.2")
        self.every_call_is_answered()

        with self.subTest("move a namespace under load"), Calls(self, "bank", SHOP) as calls:
            calls.wait_for(50)
            begun = time.time()
            self.run_page("Move a namespace")
            calls.wait_for(50)
        self.assert_failures_are_of_the_restart(calls, begun)
        self.assertEqual(["shop"], self.moved())
        with Calls(self, "bank", SHOP) as there, Calls(self, "shop", BANK) as back:
            self.every_call_is_answered()
            for calls in (there, back):
                calls.wait_for(200)
        self.assertEqual([[], []], [there.failures, back.failures])
        self.only_granted_accounts_are_let_in()
        with self.subTest("permissive mode"):
            self.set_permissive(True)
            self.wait_for_answer("bank", 200, SHOP, app="other")
            self.wait_for_answer("shop", 200, BANK.replace("/x", "/other"))
            self.names_of_no_workload_are_refused()
            self.set_permissive(False)
            self.only_granted_accounts_are_let_in()

        with self.subTest("roll back"):
            self.run_page("Roll back a namespace")
            self.assertEqual([], self.moved())
            self.every_call_is_answered()
        self.run_page("Move a namespace")
        self.assertEqual(["shop"], self.moved())
        self.every_call_is_answered()
        # Neither control plane touched what the other one keeps.
        self.assertEqual(secrets, self.bootstrap_secrets("bank"))
        self.run_page("Move a namespace", shop="bank")
        self.every_call_is_answered()

        with self.subTest("end"):
            self.wait_for_answer("late", 200, SHOP)
            self.assertEqual(["bank", "shop"], self.moved())
            self.run_page("End the move")
            self.run_page("End the move", shop="bank")
            self.every_call_is_answered()
            # A sidecar of OSM v1.2 that was forgotten still has its certificate.
            wait_for(
                "the workload of OSM v1.2 is refused", lambda: self.pod_of("late").get(SHOP)[0] != 200, 60, interval=0.2
            )
            self.assertEqual(REFUSED, self.answer_to("bank.bank"))
            self.restart("shop", "shop")
            self.assertEqual(["bank", "shop"], self.moved())
            self.every_call_is_answered()

    # -- steps ----------------------------------------------------------------------------------
    def install_apps(self):
        """An account in each namespace, which may call the one in the other. `late` stays with OSM
        v1.2. `bank/other` may ask for one path of the shop, which `bank/bank` may not."""
        for ns in ("shop", "bank", "late"):
            self.api.apply(
                mesh.namespace(ns),
                k8s.account(ns, ns),
                k8s.service(ns, ns, 80, k8s.PORT),
                k8s.deployment(ns, ns, account=ns),
                objects.routes(
                    ns,
                    "routes",
                    open={"pathRegex": "/x", "methods": ["GET"]},
                    other={"pathRegex": "/other", "methods": ["GET"]},
                ),
            )
        self.api.apply(k8s.account("bank", "other"), k8s.deployment("bank", "other", account="other"))
        for ns, callers in (("shop", [("bank", "bank"), ("late", "late")]), ("bank", [("shop", "shop")])):
            self.api.apply(objects.target(ns, "access", ns, callers, ("HTTPRouteGroup", "routes", ["open"])))
        self.api.apply(
            objects.target("shop", "other", "shop", [("bank", "other")], ("HTTPRouteGroup", "routes", ["other"]))
        )
        for ns, name in (("shop", "shop"), ("bank", "bank"), ("late", "late"), ("bank", "other")):
            self.wait_until_available(ns, name, 60)

    def every_call_is_answered(self):
        for source, url in (("shop", BANK), ("bank", SHOP)):
            self.wait_for_answer(source, 200, url)

    def only_granted_accounts_are_let_in(self):
        """A moved server knows callers of OSM v1.2 by their exact accounts."""
        other = SHOP.replace("/x", "/other")
        self.wait_for_answer("bank", 200, other, app="other")
        self.wait_for_answer("bank", 403, SHOP, app="other")
        self.wait_for_answer("bank", 200, SHOP)
        self.wait_for_answer("bank", 403, other)
        self.assertEqual([200, 403], [self.answer_to(name) for name in ("bank.bank", "other.bank")])
        self.names_of_no_workload_are_refused()

    def names_of_no_workload_are_refused(self):
        """Certificates of the CA that OSM v1.2 gives its proxies and itself, and others."""
        proxy = "6f2c1a9e-0b7d-4c55-8e21-9f3a4d5b6c70.sidecar.bank.bank"
        for name in (proxy, "ads", "x.bank.bank", "bank.bank.example.org.", "osm-validator.osm-system.svc."):
            with self.subTest(name):
                self.assertEqual(REFUSED, self.answer_to(name))

    def answer_to(self, name):
        """Status that the shop's server answers a client whose certificate of the CA has the DNS name
        `name`.cluster.local; `name` itself if it ends in a dot. Without a sidecar's help."""
        name = name.removesuffix(".") if name.endswith(".") else f"{name}.cluster.local"
        if not hasattr(self, "authority"):
            bundle = self.api.get("Secret", osm_v1.SYSTEM, osm_v1.CA_SECRET)["data"]
            pem = self.rig.directory / "osm-v1-ca.pem"
            pem.write_bytes(b"\n".join(base64.b64decode(bundle[k]) for k in ("ca.crt", "private.key")))
            self.authority = Authority(self.rig.directory / "impostors", pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(*self.authority.named(name, f"DNS:{name}"))
        context.set_alpn_protocols(["osm"])
        address = self.pod_of("shop").run.obj["status"]["podIP"]
        try:
            with (
                self.cluster.namespace.connect(address, k8s.PORT, 10) as plain,
                context.wrap_socket(plain, server_hostname="shop.shop.svc.cluster.local") as secured,
            ):
                secured.sendall(b"GET /x HTTP/1.1\r\nHost: shop.shop\r\nConnection: close\r\n\r\n")
                return int(secured.recv(4096).split()[1])
        except (OSError, IndexError):  # also ssl.SSLError
            return REFUSED

    def set_permissive(self, on):
        """In both meshes."""
        for ns in (osm_v1.SYSTEM, "libosm-system"):
            self.cluster.kubectl(
                "patch",
                "meshconfig",
                "-n",
                ns,
                "osm-mesh-config",
                "--type=merge",
                "-p",
                json.dumps({"spec": {"traffic": {"enablePermissiveTrafficPolicyMode": on}}}),
            )

    def check_the_dump(self):
        """The dump of this cluster, made and checked as the page says. The definitions are those of
        a cluster that was OSM v1.0 once."""
        self.store_in_old_version()
        self.run_page("Make the dump")
        ran = self.run_page("Check it", expect=None)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, rf"CustomResourceDefinition\S* {CONFIGS} +nothing +same +status.storedVersions")
        self.assertRegex(ran.stdout, r"MeshConfig osm-system/osm-mesh-config +less +same")
        self.assertRegex(ran.stdout, r"Access: 0 refused here, 0 allowed here\n$")
        self.assertNotIn("note:", ran.stdout + ran.stderr)

    def moved(self):
        """Namespaces whose newest pod has a sidecar of this mesh."""
        return sorted(ns for ns in ("bank", "late", "shop") if not self.is_of_osm_v1(ns))

    def is_of_osm_v1(self, ns):
        status, dump = self.pod_of(ns).admin("/config_dump?mask=bootstrap")
        self.assertEqual(status, 200)
        return f"osm-controller.{osm_v1.SYSTEM}.svc" in dump

    def bootstrap_secrets(self, ns):
        pods = {p["metadata"]["labels"].get("osm-proxy-uuid") for p in self.pods(ns)}
        return {
            s["metadata"]["name"]: s["data"]
            for s in self.api.list("Secret", ns)
            if s["metadata"]["name"].removeprefix("envoy-bootstrap-config-") in pods
        }

    def assert_failures_are_of_the_restart(self, calls, begun):
        """OSM v1.2 loses requests while a pod ends: its sidecar ends at once, and its clients learn
        it up to ten seconds later. A move loses no others."""
        lost = [f for f in calls.failures if not begun <= f[0] <= begun + RESTART]
        took = [f"{f[0] - begun:.1f} s: {f[1]}" for f in calls.failures]
        print(f"{calls.count} calls, failures while the pod was replaced: {took}", file=sys.stderr)
        self.assertEqual([], lost)

    # -- a cluster whose storage is older than OSM v1.2 -------------------------------------------
    def store_in_old_version(self):
        """The MeshConfig is stored as v1alpha1, as by an OSM of before v1.1."""
        self.set_storage("v1alpha1")
        self.cluster.kubectl("annotate", "meshconfig", "-n", osm_v1.SYSTEM, "osm-mesh-config", "stored=old")
        self.set_storage("v1alpha2")

    def set_storage(self, version):
        versions = self.api.get("CustomResourceDefinition", None, CONFIGS)["spec"]["versions"]
        for each in versions:
            each["storage"] = each["name"] == version
        self.cluster.kubectl(
            "patch", "crd", CONFIGS, "--type=merge", "-p", json.dumps({"spec": {"versions": versions}})
        )


if __name__ == "__main__":
    kubecase.main()
