#!/usr/bin/python3
"""A real nginx and a real Envoy outside of the mesh are admitted by address or certificate, as the source
Service's machines come and go, in both modes; workloads, wrong certificates and wrong names are refused;
the authorizer and limits count.
"""

import http.client
import json
import pathlib
import sys

from lib.kube import apps
from lib.mesh import meshcase, objects
from lib.mesh.authority import Authority, openssl
from lib.mesh.rig import REFUSED
from lib.net import gateways
from lib.net.netns import Switch
from lib.net.outside import Authorizer
from lib.net.processes import NotYet, wait_for

APP = pathlib.Path(apps.__path__[0]) / "http_app.py"
PLAIN, PROVEN, UNPROVEN = 14001, 14002, 14003  # target ports
SERVER, GATEWAY, OTHER = "10.200.0.12", "10.200.0.21", "10.200.0.22"
SNI, NAME = "shop.example.com", "server.server.cluster.local"  # NAME: of the workload's certificate
PRINCIPAL = "gateway.edge.cluster.local"
MESH_SNI = "server.server.svc.cluster.local"


class Ingress(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client = self.add_machine("client", "10.200.0.11")
        self.server = self.add_machine("server", SERVER)
        service = objects.service("server", "server", "10.96.0.12", 80, PLAIN)
        service["spec"]["ports"] += [
            {"name": "http-proven", "port": 443, "targetPort": PROVEN},
            {"name": "http-unproven", "port": 444, "targetPort": UNPROVEN},
        ]
        self.rig.mesh.write(
            "server.yaml", service, objects.service("client", "agents", "10.96.0.13", 80, selector={"app": "client"})
        )
        self.rig.mesh.write(
            "edge.yaml", objects.namespace("edge", labels={}), objects.service("edge", "gateway", "10.97.0.1", 80)
        )
        self.gateway, self.other = (self.outsider(n, a) for n, a in (("gateway", GATEWAY), ("other", OTHER)))
        self.start_mesh()
        for port in (PLAIN, PROVEN, UNPROVEN):
            self.server.run(f"app-{port}", sys.executable, str(APP), "--port", str(port))
        self.mesh_ca = Authority(self.rig.directory / "mesh-ca", self.rig.state / "ca" / "ca.pem")
        self.roots = self.rig.directory / "roots.pem"
        self.roots.write_text(openssl("x509", "-in", self.mesh_ca.pem))
        self.identity = self.mesh_ca.named("gateway", f"DNS:{PRINCIPAL}", "URI:spiffe://cluster.local/osm/gateway/edge")

    def outsider(self, name, address):
        """A machine without a sidecar."""
        made = self.rig.switch.plug_in(name, address)
        self.addCleanup(made.delete)
        return made

    def admit(self, *sources, name="in", **backends):
        """Writes an IngressBackend of the server. `backends`: plain, proven, unproven."""
        ports = {"plain": PLAIN, "proven": PROVEN, "unproven": UNPROVEN}
        self.rig.mesh.write(
            f"{name}.yaml",
            objects.ingress_backend(
                "server", name, {("server", ports[n]): rule for n, rule in backends.items()}, *sources
            ),
        )

    def configure(self, permissive=False, **more):
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive, **more))

    def gateway_machine(self, *addresses):
        """The machines behind the source Service."""
        self.rig.mesh.write(
            "gateways.yaml",
            *(
                objects.machine("edge", f"gateway-{n}", address, "gateway", {"app": "gateway"})
                for n, address in enumerate(addresses)
            ),
        )

    def plain(self, namespace, path="/", headers=None):
        return gateways.ask(namespace, SERVER, PLAIN, path, headers)

    def tls(self, namespace, port, sni=SNI, identity=None, **more):
        return gateways.ask_tls(namespace, SERVER, port, sni, identity, **more)

    def wait_for_answer(self, wanted, ask):
        def seen():
            got = ask()
            if got[0] != wanted:
                raise NotYet(got)
            return got[1] or "-"

        return wait_for(f"answer {wanted or 'refused'}", seen, 20)

    def causes(self, name="in"):
        return [p["cause"] for p in self.rig.problems() if p["object"] == f"IngressBackend server/{name}"]

    # -- http -------------------------------------------------------------------------------------
    def test_plain_text_is_admitted_by_the_callers_address_alone(self):
        self.assertEqual(self.plain(self.gateway)[0], REFUSED)
        for permissive in (False, True):
            with self.subTest("an IPRange", permissive=permissive):
                self.configure(permissive)
                self.admit(("IPRange", f"{GATEWAY}/32"), plain={"protocol": "http"})
                self.wait_for_answer(200, lambda: self.plain(self.gateway))
                self.assertEqual(self.plain(self.other)[0], 403)
                self.assertEqual(self.plain(self.other, headers={"X-Forwarded-For": GATEWAY})[0], 403)
        with self.subTest("a header about certificates reaches nobody"):
            body = self.plain(self.gateway, headers={"X-Forwarded-Client-Cert": "URI=a"})[1]
            self.assertNotIn("x-forwarded-client-cert", body.lower())
        with self.subTest("other ports stay closed"):
            self.assertEqual(gateways.ask(self.gateway, SERVER, PROVEN)[0], REFUSED)
        with self.subTest("a Service's port in place of its target port is explained"):
            self.rig.mesh.write(
                "in.yaml",
                objects.ingress_backend(
                    "server", "in", {("server", 80): {"protocol": "http"}}, ("IPRange", f"{GATEWAY}/32")
                ),
            )
            self.wait_for_answer(REFUSED, lambda: self.plain(self.gateway))
            self.assertIn("write 14001", " ".join(self.causes()))
        with self.subTest("a flag turns all off"):
            self.admit(("IPRange", f"{GATEWAY}/32"), plain={"protocol": "http"})
            self.wait_for_answer(200, lambda: self.plain(self.gateway))
            self.configure(True, featureFlags={"enableIngressBackendPolicy": False})
            self.wait_for_answer(REFUSED, lambda: self.plain(self.gateway))

    def test_a_source_service_outside_of_the_mesh_is_followed_on_open_connections(self):
        self.admit(("Service", "gateway", "edge"), plain={"protocol": "http"})
        self.wait_for_answer(403, lambda: self.plain(self.gateway))
        self.assertIn("Service edge/gateway is not there, or has no endpoint", self.causes()[0])
        self.gateway_machine(GATEWAY)
        self.wait_for_answer(200, lambda: self.plain(self.gateway))
        self.assertEqual(self.causes(), [])
        self.assertEqual(self.plain(self.other)[0], 403)
        held = http.client.HTTPConnection(SERVER, PLAIN, timeout=5)
        held.auto_open = 0
        held.sock = self.gateway.connect(SERVER, PLAIN, timeout=5)
        self.addCleanup(held.close)

        def ask_again():
            held.request("GET", "/")
            answer = held.getresponse()
            return answer.status, answer.read().decode()

        listeners = self.server.updates()["LDS"]
        self.assertEqual(ask_again()[0], 200)
        self.gateway_machine(GATEWAY, OTHER)
        self.wait_for_answer(200, lambda: self.plain(self.other))
        self.assertEqual(ask_again()[0], 200)
        self.gateway_machine(OTHER)
        self.wait_for_answer(403, ask_again)  # the connection stays, its permission does not
        self.gateway_machine(OTHER, GATEWAY)
        self.wait_for_answer(200, ask_again)
        self.assertEqual(self.server.updates()["LDS"], listeners)

    def test_a_workload_of_the_mesh_gets_no_rights_by_its_address(self):
        self.configure(egress=True)
        self.admit(("Service", "agents", "client"), ("IPRange", f"{GATEWAY}/32"), plain={"protocol": "http"})
        self.wait_for_answer(200, lambda: self.plain(self.gateway))

        def past_the_mesh():  # egress sends it in plain text from the client's own address
            return self.client.request(SERVER, PLAIN, "/", SERVER)

        self.assertEqual(past_the_mesh()[0], 403)
        self.assertIn("does not admit workload client/client behind Service client/agents", " ".join(self.causes()))

    # -- https ------------------------------------------------------------------------------------
    def test_https_is_admitted_by_the_name_in_a_certificate_of_the_mesh(self):
        for permissive in (False, True):
            self.configure(permissive)
            self.admit(
                ("AuthenticatedPrincipal", PRINCIPAL),
                proven={"protocol": "https", "skipClientCertValidation": False, "sniHosts": [SNI, NAME]},
            )
            body = self.wait_for_answer(200, lambda: self.tls(self.gateway, PROVEN, identity=self.identity))
            self.assertIn("URI=spiffe://cluster.local/osm/gateway/edge", body)
            self.assertEqual(self.tls(self.gateway, PROVEN)[0], REFUSED)
        named, ask = self.mesh_ca.named, self.tls
        stranger = Authority(self.rig.directory / "other-ca")
        for label, identity in (
            ("another name", named("other", "DNS:other.edge.cluster.local")),
            ("a part of the name", named("part", "DNS:gateway.edge")),
            (
                "the name as a common name",
                named("common", "URI:spiffe://cluster.local/osm/gateway/x", common_name=PRINCIPAL),
            ),
            ("another CA", stranger.named("strange", f"DNS:{PRINCIPAL}")),
            (
                "a workload",
                named("workload", "URI:spiffe://cluster.local/ns/client/sa/client", "DNS:client.client.cluster.local"),
            ),
        ):
            with self.subTest(label):
                self.assertEqual(ask(self.gateway, PROVEN, identity=identity)[0], REFUSED)
        with self.subTest("a workload whose DNS name is the gateway's"):
            impostor = named(
                "impostor",
                "URI:spiffe://cluster.local/ns/edge/sa/gateway",
                f"DNS:{PRINCIPAL}",
                uses="clientAuth, serverAuth",
            )
            self.assertEqual(ask(self.gateway, PROVEN, identity=impostor)[0], 403)
        with self.subTest("another server name"):
            self.assertEqual(ask(self.gateway, PROVEN, "a.example.com", self.identity)[0], REFUSED)
        with self.subTest("an address limits, too"):
            self.admit(
                ("AuthenticatedPrincipal", PRINCIPAL),
                ("IPRange", f"{OTHER}/32"),
                proven={"protocol": "https", "skipClientCertValidation": False},
            )
            self.wait_for_answer(403, lambda: ask(self.gateway, PROVEN, identity=self.identity))
            self.assertEqual(ask(self.other, PROVEN, identity=self.identity)[0], 200)
            # Any server name, that of the mesh included, but not as a sidecar.
            self.assertEqual(ask(self.other, PROVEN, MESH_SNI, self.identity)[0], 200)
            self.assertEqual(ask(self.other, PROVEN, MESH_SNI, self.identity, alpn=("osm",))[0], REFUSED)

    def test_without_client_certificates_the_address_alone_counts(self):
        self.admit(
            ("IPRange", f"{GATEWAY}/32"),
            unproven={"protocol": "https", "skipClientCertValidation": True, "sniHosts": [SNI]},
        )
        self.wait_for_answer(200, lambda: self.tls(self.gateway, UNPROVEN))
        self.assertEqual(self.tls(self.other, UNPROVEN)[0], 403)
        self.assertEqual(self.tls(self.gateway, UNPROVEN, "a.example.com")[0], REFUSED)

    def test_real_gateways_call_and_know_their_server_by_its_dns_name(self):
        self.admit(("IPRange", f"{GATEWAY}/32"), plain={"protocol": "http"}, name="plain")
        self.admit(
            ("AuthenticatedPrincipal", PRINCIPAL),
            name="proven",
            proven={"protocol": "https", "skipClientCertValidation": False, "sniHosts": [SNI, NAME]},
        )
        certificate, key = self.identity
        gateways.nginx(
            self.rig,
            self.gateway,
            plain=f"{SERVER}:{PLAIN}",
            tls=f"{SERVER}:{PROVEN}",
            certificate=certificate,
            key=key,
            roots=self.roots,
            name=NAME,
        )
        gateways.envoy(
            self.rig,
            self.other,
            address=SERVER,
            port=PROVEN,
            certificate=certificate,
            key=key,
            roots=self.roots,
            name=NAME,
            sni=SNI,
        )
        for namespace, port in ((self.gateway, 8080), (self.gateway, 8443), (self.other, 8081)):
            with self.subTest(port=port):
                self.wait_for_answer(200, lambda n=namespace, p=port: gateways.ask(n, "127.0.0.1", p))
        with self.subTest("a server with another name gets no request"):
            shown = json.loads(self.server.admin("/certs")[1])["certificates"]
            names = [
                san["dns"]
                for c in shown
                for leaf in c["cert_chain"]
                for san in leaf["subject_alt_names"]
                if "dns" in san
            ]
            self.assertEqual(set(names), {NAME})

    def test_a_dns_name_authorizes_nobody_in_the_mesh(self):
        self.rig.mesh.write(
            "access.yaml",
            objects.routes("server", "all", any={"pathRegex": ".*"}),
            objects.target("server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "all", ["any"])),
        )
        self.wait_for_status(self.client, 200, "server.server", "/", 80)
        name = "DNS:client.client.cluster.local"

        def ask(label, *names):
            return self.tls(self.gateway, PLAIN, MESH_SNI, self.mesh_ca.named(label, *names), alpn=("osm",))[0]

        self.assertEqual(ask("only", name), REFUSED)
        self.assertEqual(ask("gateway", name, "URI:spiffe://cluster.local/osm/gateway/x"), REFUSED)
        self.assertEqual(ask("another", name, "URI:spiffe://cluster.local/ns/x/sa/other"), 403)
        own = "URI:spiffe://cluster.local/ns/client/sa/client"
        self.assertEqual(ask("own", "DNS:a.b", own), 200)

    # -- what other objects say -------------------------------------------------------------------
    def test_an_authorizer_is_asked_and_without_it_nothing_passes(self):
        self.admit(("IPRange", f"{GATEWAY}/32"), plain={"protocol": "http"}, name="plain")
        self.admit(
            ("AuthenticatedPrincipal", PRINCIPAL),
            name="proven",
            proven={"protocol": "https", "skipClientCertValidation": False},
        )
        authorizer = Authorizer(self.rig.switch.namespace, Switch.ADDRESS, 9191, lambda _, path: path != "/secret")
        self.addCleanup(lambda: authorizer.closed or authorizer.close())
        self.wait_for_answer(200, lambda: self.plain(self.gateway, "/secret"))

        def configure(**more):
            made = objects.mesh_config()
            made["spec"]["traffic"]["inboundExternalAuthorization"] = {
                "enable": True,
                "address": Switch.ADDRESS,
                "port": 9191,
                "timeout": "10s",
                **more,
            }
            self.rig.mesh.write("config.yaml", made)

        configure()
        body = self.wait_for_answer(403, lambda: self.plain(self.gateway, "/secret"))
        self.assertIn("says the authorizer", body)
        self.wait_for_answer(200, lambda: self.plain(self.gateway))
        self.wait_for_answer(200, lambda: self.tls(self.gateway, PROVEN, identity=self.identity))
        self.assertIn("spiffe://cluster.local/osm/gateway/edge", {who for who, _ in authorizer.asked})
        asked = len(authorizer.asked)
        self.assertEqual(self.plain(self.other)[0], 403)
        self.assertEqual(len(authorizer.asked), asked)  # policy refused it before
        authorizer.close()
        self.wait_for_answer(403, lambda: self.plain(self.gateway))
        self.wait_for_answer(403, lambda: self.tls(self.gateway, PROVEN, identity=self.identity))
        configure(failureModeAllow=True)
        self.wait_for_answer(200, lambda: self.plain(self.gateway))

    def test_limits_of_the_service_count_calls_of_gateways(self):
        self.admit(("IPRange", f"{GATEWAY}/32"), plain={"protocol": "http"})
        self.wait_for_answer(200, lambda: self.plain(self.gateway))
        self.rig.mesh.write(
            "limits.yaml",
            objects.upstream_setting(
                "server", "limits", "server.server", rateLimit={"local": {"http": {"requests": 3, "unit": "hour"}}}
            ),
        )
        self.assertEqual({self.plain(self.other)[0] for _ in range(9)}, {403})  # takes no token
        self.assertEqual([self.plain(self.gateway)[0] for _ in range(5)], [200] * 3 + [429] * 2)


if __name__ == "__main__":
    meshcase.main()
