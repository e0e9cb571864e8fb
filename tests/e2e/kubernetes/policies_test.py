#!/usr/bin/python3
"""Pods see what OSM's policies say, in SMI and permissive mode: limits, a rate-limit server, gateways with
a certificate of the mesh, egress by TLS name and address, an authorizer and a collector. No request fails
while a backend is deleted and in a Recreate rollout.
"""

import base64
import json
import re
import ssl
import threading

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.mesh import objects
from lib.mesh.authority import Authority
from lib.mesh.rate_limiter import RateLimiter, per_year
from lib.mesh.rig import REFUSED
from lib.net import gateways
from lib.net.collector import OTLP_PORT, Collector
from lib.net.netns import Switch
from lib.net.outside import Authorizer, GreetingDestination, TlsDestination
from lib.net.processes import NotYet, wait_for

SNI = "front.example.com"
ADMIN = 9090
CLOSED = 0  # InjectedPod.get: the sidecar closed the connection


class PoliciesTest(kubecase.MeshCase):
    def setUp(self):
        super().setUp()
        self.api.apply(objects.mesh_config())

    # -- what tests stand on ----------------------------------------------------------------------
    def start_outside(self, ns, name):
        """A pod without a sidecar, in a namespace outside of the mesh, with a Service. Result:
        (its network namespace, its address)."""
        self.api.apply(k8s.service(ns, name), k8s.deployment(ns, name))
        self.wait_until_available(ns, name)
        pod = self.pod_of(ns, name)
        self.assertFalse(pod.has_sidecar())
        return pod.run.namespace, self.pods(ns, name)[0]["status"]["podIP"]

    def modes(self):
        """False and True, for the mode that is permissive and now in force."""
        for permissive in (False, True):
            self.api.apply(objects.mesh_config(permissive))
            yield permissive

    def put(self, policy):
        self.api.apply(policy)
        meta = policy["metadata"]
        self.wait_until_programmed(policy["kind"], meta["namespace"], meta["name"])

    @staticmethod
    def wait_for_result(wanted, ask, interval=0.1):
        def seen():
            got = ask()
            if got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"it gets {wanted}", seen, 30, interval=interval)

    # -- access -----------------------------------------------------------------------------------
    def test_a_targets_tcp_routes_bound_its_http_grants(self):
        ns = "bounded"
        client = self.start_clients(ns, "server")
        service = k8s.service(ns, "server")
        service["spec"]["ports"].append({"name": "http-admin", "port": ADMIN, "targetPort": ADMIN})
        self.api.apply(
            service,
            k8s.deployment(
                ns, "server", [k8s.http_container(), k8s.http_container("admin", port=ADMIN)], account="server"
            ),
        )
        self.wait_until_available(ns, "server")
        admin = f"server.{ns}:{ADMIN}/"
        self.wait_for_answer(client, 200, admin)  # the target has no TCPRoute
        self.api.apply(
            objects.target(
                ns, "server", "server", [(ns, "client")], ("HTTPRouteGroup", "all", ["all"]), ("TCPRoute", "all", None)
            )
        )  # of port 8080
        self.wait_for_answer(client, 404, admin)
        self.wait_for_answer(client, 200, f"server.{ns}:{k8s.PORT}/")

    # -- UpstreamTrafficSetting -------------------------------------------------------------------
    def test_limits_of_paths_hold_beside_the_services_own(self):
        ns = "lanes"
        client, url = self.start_clients(ns, "server"), f"server.{ns}:{k8s.PORT}"
        for permissive in self.modes():
            self.wait_for_answer(client, 200, url + "/lane")
            allowed = 5 if permissive else 3
            self.put(
                objects.upstream_setting(
                    ns,
                    "limits",
                    f"server.{ns}",
                    rateLimit={"local": {"http": {"requests": 50, "unit": "hour"}}},
                    httpRoutes=[{"path": "/lane", "rateLimit": {"local": {"requests": allowed, "unit": "hour"}}}],
                )
            )
            got = [client.get(url + "/lane")[0] for _ in range(allowed + 2)]
            self.assertEqual([200] * allowed + [429] * 2, got)
            self.assertEqual(200, client.get(url + "/other")[0])
            self.api.delete("UpstreamTrafficSetting", ns, "limits")
            self.wait_for_answer(client, 200, url + "/lane")

    def test_limits_of_connections_hold_for_a_tcp_service(self):
        ns = "wires"
        client = self.start_clients(ns, "server", protocol="tcp")
        url = f"server.{ns}:{k8s.PORT}/"
        for permissive in self.modes():
            self.wait_for_answer(client, 200, url)
            allowed = 4 if permissive else 2
            self.put(
                objects.upstream_setting(
                    ns, "limits", f"server.{ns}", rateLimit={"local": {"tcp": {"connections": allowed, "unit": "hour"}}}
                )
            )
            # Each call is a connection of its own.
            self.assertEqual([200] * allowed + [CLOSED] * 2, [client.get(url)[0] for _ in range(allowed + 2)])
            self.put(
                objects.upstream_setting(
                    ns, "limits", f"server.{ns}", connectionSettings={"tcp": {"maxConnections": 1}}
                )
            )
            self.wait_for_answer(client, 200, url)
            held = self.hold(client, f"server.{ns}")
            self.assertEqual(CLOSED, client.get(url)[0])
            held.close()
            self.wait_for_answer(client, 200, url)
            self.api.delete("UpstreamTrafficSetting", ns, "limits")

    def hold(self, client, host):
        """A connection that has had its first answer."""

        def first_answer():
            # While Envoy still counts the connection of the call before, it closes this one.
            held = client.run.namespace.connect(client.resolve(host), k8s.PORT)
            self.addCleanup(held.close)
            held.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            if not held.recv(12).endswith(b"200"):
                raise NotYet("the connection was closed")
            return held

        return wait_for("a connection is open", first_answer, 20, retry=(OSError,))

    def test_a_rate_limit_server_counts_for_all_pods(self):
        ns = "counted"
        limiter = RateLimiter(
            self.rig,
            {
                "mesh": [
                    per_year(4, "generic_key", "smi"),
                    per_year(6, "generic_key", "permissive"),
                    per_year(0, "generic_key", "unlimited"),
                ]
            },
        )
        self.addCleanup(limiter.stop)
        client, url = self.start_clients(ns, "server"), f"server.{ns}:{k8s.PORT}/"
        self.cluster.kubectl("scale", "-n", ns, "deployment/server", "--replicas=2")
        self.wait_until_available(ns, "server")

        def limit(value):
            self.put(
                objects.upstream_setting(
                    ns,
                    "limits",
                    f"server.{ns}",
                    rateLimit={
                        "global": {
                            "http": {
                                "rateLimitService": limiter.server,
                                "domain": "mesh",
                                "timeout": "10s",
                                "descriptors": [{"entries": [{"genericKey": {"value": value}}]}],
                            }
                        }
                    },
                )
            )

        for permissive in self.modes():
            self.wait_for_answer(client, 200, url)
            value, allowed = ("permissive", 6) if permissive else ("smi", 4)
            # The first limit of a server changes the listener: connections of before it end with
            # their next answer, which nobody counts.
            limit("unlimited")
            self.assertEqual({200}, {client.get(url)[0] for _ in range(12)})
            limit(value)
            answers = [client.get(url) for _ in range(allowed + 3)]
            self.assertEqual([200] * allowed + [429] * 3, [a[0] for a in answers])
            pods = {json.loads(body)["pod"] for status, body in answers if status == 200}
            self.assertEqual(2, len(pods), "both pods answered, and one count was kept")
            self.api.delete("UpstreamTrafficSetting", ns, "limits")
            self.wait_for_answer(client, 200, url)

    # -- IngressBackend ---------------------------------------------------------------------------
    def gateway_identity(self, ns, name):
        """(certificate file, key file) that the mesh issued for a gateway and keeps in a Secret."""
        mesh.grant_gateway(self.cluster, ns)
        self.gateway = {"ingressGateway": {"subjectAltNames": [name], "secret": {"name": "client", "namespace": ns}}}
        self.api.apply(objects.mesh_config(certificate=self.gateway))
        secret = wait_for("the Secret is made", lambda: self.api.find("Secret", ns, "client"), 30)
        self.addCleanup(self.api.wait_until_gone, "Secret", ns, "client")
        self.addCleanup(self.api.apply, objects.mesh_config())
        files = []
        for part in ("tls.crt", "tls.key"):
            files.append(self.rig.directory / f"gateway-{part}")
            files[-1].write_bytes(base64.b64decode(secret["data"][part]))
        return tuple(files)

    def test_gateways_enter_by_service_by_address_and_by_a_certificate_of_the_mesh(self):
        ns, edge, name = "front", "edge", "gateway.edge.example"
        self.start_clients(ns, "server")
        self.api.apply(objects.namespace(edge, {}))
        self.addCleanup(self.api.delete, "Namespace", None, edge)
        gateway, address = self.start_outside(edge, "gateway")
        other, _ = self.start_outside(edge, "other")
        identity = self.gateway_identity(edge, name)
        server = self.pods(ns, "server")[0]["status"]["podIP"]

        def plain(caller):
            return gateways.ask(caller, server, k8s.PORT)[0]

        def tls(caller, shown=identity):
            return gateways.ask_tls(caller, server, k8s.PORT, SNI, shown)[0]

        def admit(rule, *sources):
            self.put(objects.ingress_backend(ns, "in", {("server", k8s.PORT): rule}, *sources))

        for permissive in (False, True):
            with self.subTest(permissive=permissive):
                self.api.apply(objects.mesh_config(permissive, certificate=self.gateway))
                self.wait_for_result(REFUSED, lambda: plain(gateway))
                admit({"protocol": "http"}, ("Service", "gateway", edge))
                self.wait_for_result(200, lambda: plain(gateway))
                self.assertEqual(403, plain(other))
                admit({"protocol": "http"}, ("IPRange", f"{address}/32"))
                self.wait_for_result(200, lambda: plain(gateway))
                self.assertEqual(403, plain(other))
                admit(
                    {"protocol": "https", "skipClientCertValidation": False, "sniHosts": [SNI]},
                    ("AuthenticatedPrincipal", name),
                )
                self.wait_for_result(200, lambda: tls(gateway))
                self.assertEqual(200, tls(other))  # who it is counts, not where
                self.assertEqual(REFUSED, tls(gateway, None))
                self.assertEqual(REFUSED, plain(gateway))
                self.api.delete("IngressBackend", ns, "in")
        with self.subTest("a Service's port in place of its target port is explained"):
            self.api.apply(
                k8s.service(ns, "server", 80, k8s.PORT),
                objects.ingress_backend(ns, "in", {("server", 80): {"protocol": "http"}}, ("IPRange", f"{address}/32")),
            )

            def explained():
                told = json.dumps(self.api.get("IngressBackend", ns, "in").get("status"))
                if f"write {k8s.PORT}" not in told:
                    raise NotYet(told)
                return True

            wait_for("a condition says which port to write", explained, 30)

    # -- Egress -----------------------------------------------------------------------------------
    def test_egresses_open_tls_names_and_addresses_outside(self):
        ns = "leaving"
        client = self.start_clients(ns)
        authority = Authority(self.rig.directory / "outside-ca")
        network = self.cluster.namespace
        https = TlsDestination(
            network, Switch.ADDRESS, 8443, "far", authority.named("far", "DNS:far.example", uses="serverAuth")
        )
        self.addCleanup(https.close)
        greeter = GreetingDestination(network, Switch.ADDRESS, 2525, "mail")
        self.addCleanup(greeter.close)

        def say(name):
            """The server's word to a client that asks for TLS name `name`, or REFUSED."""
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            try:
                plain = client.run.namespace.connect(Switch.ADDRESS, 8443, timeout=5)
                with context.wrap_socket(plain, server_hostname=name) as tls:
                    return tls.recv(10).decode()
            except (ConnectionError, ssl.SSLError):
                return REFUSED

        def greet():
            """The first words of a server that speaks first, within a second, or REFUSED."""
            try:
                with client.run.namespace.connect(Switch.ADDRESS, 2525, timeout=1) as plain:
                    return plain.recv(100).decode().strip() or REFUSED
            except ConnectionError:
                return REFUSED

        for _ in self.modes():
            self.wait_for_result(REFUSED, lambda: say("far.example"))
            self.assertEqual(REFUSED, greet())
            self.put(objects.egress(ns, "tls", ["client"], {8443: "https"}, ["*.example"]))
            self.wait_for_result("far", lambda: say("far.example"))
            self.assertEqual(REFUSED, say("far.other"))
            self.assertEqual(REFUSED, greet())
            self.put(
                objects.egress(ns, "tcp", ["client"], {2525: "tcp-server-first"}, addresses=[f"{Switch.ADDRESS}/32"])
            )
            self.wait_for_result("220 mail", greet)
            for name in ("tls", "tcp"):
                self.api.delete("Egress", ns, name)
            self.wait_for_result((REFUSED, REFUSED), lambda: (say("far.example"), greet()))
        self.assertEqual({"far.example"}, set(https.names))

    def test_the_api_server_is_reached_past_the_mesh_where_egress_is_on_and_else_is_not(self):
        client = self.start_clients("asking")
        spec = self.api.get("Service", "default", "kubernetes")["spec"]

        def shake_hands():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            try:
                plain = client.run.namespace.connect(spec["clusterIP"], spec["ports"][0]["port"], timeout=5)
                with context.wrap_socket(plain) as tls:
                    return tls.version()
            except (ConnectionError, ssl.SSLError):
                return REFUSED

        for permissive in (False, True):
            with self.subTest(permissive=permissive):
                self.api.apply(objects.mesh_config(permissive))
                self.wait_for_result(REFUSED, shake_hands)
                self.api.apply(objects.mesh_config(permissive, egress=True))
                self.wait_for_result("TLSv1.3", shake_hands)

    # -- MeshConfig, Telemetry --------------------------------------------------------------------
    def test_an_authorizer_is_asked_and_without_it_nothing_passes(self):
        ns = "asked"
        authorizer = Authorizer(self.cluster.namespace, Switch.ADDRESS, 9191, lambda _, path: path != "/secret")
        self.addCleanup(lambda: authorizer.closed or authorizer.close())
        client, url = self.start_clients(ns, "server"), f"server.{ns}:{k8s.PORT}"

        def configure(permissive, **more):
            made = objects.mesh_config(permissive)
            made["spec"]["traffic"]["inboundExternalAuthorization"] = {
                "enable": True,
                "address": Switch.ADDRESS,
                "port": 9191,
                "timeout": "10s",
                **more,
            }
            self.api.apply(made)

        for permissive in self.modes():
            self.wait_for_answer(client, 200, url + "/secret")
            configure(permissive)
            self.wait_for_answer(client, 403, url + "/secret")
            self.assertEqual(200, client.get(url + "/open")[0])
        self.assertIn(f"spiffe://cluster.local/ns/{ns}/sa/client", {who for who, _ in authorizer.asked})
        authorizer.close()
        self.wait_for_answer(client, 403, url + "/open")
        configure(True, failureModeAllow=True)
        self.wait_for_answer(client, 200, url + "/secret")

    def test_a_collector_gets_access_logs_and_a_json_form_is_written(self):
        ns = "logged"
        collector = Collector(self.rig, Switch.ADDRESS)
        client, url = self.start_clients(ns, "server"), f"server.{ns}:{k8s.PORT}/logged"
        self.wait_for_answer(client, 200, url)
        self.put(objects.extension_service(mesh.SYSTEM, "collector", Switch.ADDRESS, OTLP_PORT))
        self.addCleanup(self.api.delete, "ExtensionService", mesh.SYSTEM, "collector")
        self.put(
            objects.telemetry(
                ns,
                "server",
                {"app": "server"},
                format='{"asked": "%REQ(:PATH)%"}',
                openTelemetry={
                    "extensionService": {"namespace": mesh.SYSTEM, "name": "collector"},
                    "attributes": {"code": "%RESPONSE_CODE%"},
                },
            )
        )
        server = self.pod_of(ns, "server")

        def arrived():
            self.assertEqual(200, client.get(url)[0])
            records = [attributes for _, _, attributes in collector.logs()]
            if {"code": "200"} not in records:
                raise NotYet(records[-3:])
            if '{"asked":"/logged"}' not in server.log("envoy"):  # Envoy writes it every ten seconds
                raise NotYet(server.log("envoy")[-500:])
            return True

        wait_for("collector and container log have the request", arrived, 60, interval=0.2)
        self.wait_until_programmed("ExtensionService", mesh.SYSTEM, "collector")

    def test_a_pods_sidecar_counts_its_requests_by_caller_and_status(self):
        ns = "measured"
        client, url = self.start_clients(ns, "server"), f"server.{ns}:{k8s.PORT}"
        address = self.pods(ns, "server")[0]["status"]["podIP"]
        caller = f"{ns}/sa/client"
        sample = re.compile(r"^envoy_osm_request_total\{([^}]*)\} (\d+)$", re.M)

        def counted():
            """{(caller, status): requests} that anybody reads."""
            status, page = self.cluster.namespace.http(address, 15010, "GET", "/stats/prometheus")
            if status != 200:
                raise NotYet(status)  # the limit of requests
            found = {}
            for labels, value in sample.findall(page):
                named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
                self.assertEqual(f"spiffe://cluster.local/ns/{ns}/sa/server", named["destination"])
                found[(named["source"].removeprefix("spiffe://cluster.local/ns/"), named["response_code"])] = int(value)
            return found

        self.wait_for_answer(client, 200, url + "/")
        self.api.apply(objects.mesh_config(featureFlags={"enableWASMStats": True}))

        def begun():
            status, body, *_ = client.get(url + "/")
            self.assertEqual(200, status, body)
            return counted()

        wait_for("requests are counted", begun, 30, interval=1)
        before = wait_for("the page is there", counted, interval=1)[caller, "200"]
        for path, times in (("/books", 7), ("/status/500", 3)):
            for _ in range(times):
                client.get(url + path)
        self.wait_for_result({(caller, "200"): before + 7, (caller, "500"): 3}, counted, 1)

    # -- changes under load -----------------------------------------------------------------------
    def under_load(self, client, host):
        """Calls `host` until the result is called; that waits for 20 calls more, and gives the
        statuses of all."""
        end, got = threading.Event(), []
        url = f"{client.resolve(host)}:{k8s.PORT}/"

        def run():
            while not end.wait(0.01):
                got.append(client.get(url, headers={"Host": host})[0])

        thread = threading.Thread(target=run)
        thread.start()

        def finish():
            wanted = len(got) + 20
            wait_for("20 calls more", lambda: len(got) >= wanted)
            end.set()
            thread.join()
            return got

        self.addCleanup(end.set)
        return finish

    def test_a_backends_service_is_deleted_under_load_and_no_request_fails(self):
        ns = "splitting"
        client = self.start_clients(ns, "one", "two")
        # Nobody serves the apex itself.
        self.api.apply(
            k8s.service(ns, "apex", selector={"app": "nobody"}), objects.split(ns, "apex", "apex", one=50, two=50)
        )
        url = f"apex.{ns}:{k8s.PORT}/"
        self.wait_for_answer(client, 200, url)
        second = f"two.{ns}:{k8s.PORT}/"
        for _ in range(5):
            address = self.api.get("Service", ns, "two")["spec"]["clusterIP"]
            finish = self.under_load(client, f"apex.{ns}")
            self.api.delete("Service", ns, "two")
            self.wait_for_answer(client, CLOSED, f"{address}:{k8s.PORT}/")
            got = finish()
            self.assertEqual({200}, set(got))
            # A Service that is there before its endpoints is sent to, and answers 503.
            self.api.apply(k8s.service(ns, "two"))
            self.wait_for_answer(client, 200, second)

    def test_a_recreate_rollout_answers_503_and_changes_no_listener(self):
        ns = "recreated"
        client, url = self.start_clients(ns, "server"), f"server.{ns}:{k8s.PORT}/"
        self.api.patch("Deployment", ns, "server", {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}})
        self.wait_until_available(ns, "server")
        self.wait_for_answer(client, 200, url)

        def listeners():
            return {
                n: v
                for n, v in client.stats("listener_manager.listener_").items()
                if n.endswith(("_added", "_modified", "_removed"))
            }

        before = listeners()
        self.assertTrue(before)
        finish = self.under_load(client, f"server.{ns}")
        self.restart(ns, "server")
        self.wait_for_answer(client, 200, url)
        got = finish()
        self.assertEqual({200, 503}, set(got))
        self.assertEqual(before, listeners())


if __name__ == "__main__":
    kubecase.main()
