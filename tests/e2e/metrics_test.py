#!/usr/bin/python3
"""A real Prometheus with the jobs of deploy/prometheus counts each request once, by caller and status, and
a caller cannot add series by its requests. Alerts fire and stop, each metric of the rules and dashboards is
scraped, and the cost of a series is bounded.
"""

import collections
import http.client
import json
import pathlib
import re
import sys

from lib.kube import apps
from lib.mesh import meshcase, objects
from lib.mesh.authority import Authority
from lib.mesh.prometheus import Prometheus, alert_rules
from lib.mesh.rig import HTTP_PORT, REFUSED
from lib.net import gateways, http2
from lib.net.netns import Switch
from lib.net.processes import NotYet, wait_for

APP = pathlib.Path(apps.__path__[0]) / "http_app.py"
HOST = "server.server"
FQDN = "server.server.svc.cluster.local"
BY_SOURCE = (
    "sum by (source_namespace, source_kind, source_name, destination_namespace, "
    "destination_kind, destination_name, response_code) (osm_request_total)"
)
PEERS, STATUSES = 30, 20
PROVEN, SNI, PRINCIPAL = 14002, "shop.example.com", "gateway.edge.cluster.local"


class Metrics(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.other = self.add_machine("other", "10.200.0.13")
        self.sent = collections.Counter()  # (source, status): requests that reached the server
        self.rig.mesh.write(
            "server.yaml",
            objects.service("server", "server", "10.96.0.12", meshcase.PORT),
            objects.routes("server", "routes", books={"pathRegex": "/books.*"}, other={"pathRegex": "/other"}),
            *(
                objects.target(
                    "server",
                    f"{account}-{route}",
                    "server",
                    [(account, account)],
                    ("HTTPRouteGroup", "routes", [route]),
                )
                for account, route in (("client", "books"), ("other", "other"))
            ),
        )
        self.configure()

    def configure(self, permissive=False, counted=True, **flags):
        self.rig.mesh.write(
            "config.yaml", objects.mesh_config(permissive, featureFlags={"enableWASMStats": counted, **flags})
        )

    def start(self):
        self.start_mesh()
        self.app = self.server.run("app", sys.executable, str(APP), "--port", str(meshcase.PORT))

    def send(self, machine, path, times=1):
        """The status of `times` equal requests through the proxy of `machine`."""
        for _ in range(times):
            status = machine.get(HOST, meshcase.PORT, path)[0]
            self.sent[machine.name, str(status)] += 1
        return status

    def wait_for_answer(self, machine, wanted, path):
        def answered():
            got = self.send(machine, path)
            if got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"{machine.name} gets {wanted} for {path}", answered)

    def page(self, machine):
        """What anybody reads at the port of a sidecar."""

        def read():
            status, body = self.rig.switch.namespace.http(machine.address, 15010, "GET", "/stats/prometheus")
            if status != 200:
                raise NotYet(status)  # the limit of requests
            return body

        return wait_for(f"{machine.name} shows its statistics", read)

    def assert_counted(self, prometheus):
        """Prometheus has exactly the requests of `sent`, and keeps them."""
        wanted = {
            ("ServiceAccount", source, source, status): float(count) for (source, status), count in self.sent.items()
        }

        def counted():
            got = {}
            for labels, value in prometheus.query(BY_SOURCE):
                self.assertEqual(
                    [labels[f"destination_{part}"] for part in ("kind", "namespace", "name")],
                    ["ServiceAccount", "server", "server"],
                )
                got[
                    tuple(labels[part] for part in ("source_kind", "source_namespace", "source_name", "response_code"))
                ] = value
            if got != wanted:
                raise NotYet(f"{got} instead of {wanted}")
            return True

        wait_for("the counts equal the requests", counted, 30)
        before = prometheus.scrapes()
        wait_for("two more scrapes", lambda: prometheus.scrapes() >= before + 2, 30)
        self.assertTrue(counted())
        total = sum(self.sent.values())
        name = 'osm_request_duration_ms_count{destination_name="server",destination_namespace="server"}'
        wait_for("the durations are of as many requests", lambda: prometheus.value(f"sum({name})") == total, 30)

    def test_prometheus_counts_each_request_once_by_caller_and_status(self):
        self.configure(enableEnvoyActiveHealthChecks=True)
        self.start()
        sidecars = {f"{machine.address}:15010": {} for machine in self.rig.machines.values()}
        prometheus = Prometheus(self.rig, sidecars)
        with self.subTest("every sidecar is scraped, and shows Envoy's own statistics"):
            wait_for("all are up", lambda: prometheus.value("sum(up)") == len(sidecars), 30)
            self.assertEqual(prometheus.value("count(envoy_server_live)"), len(sidecars))
        with self.subTest("allowed, without a route, and denied"):
            self.wait_for_answer(self.client, 200, "/books-bought")
            self.wait_for_answer(self.other, 200, "/other")
            self.assertEqual(self.send(self.client, "/books-bought", 7), 200)
            self.assertEqual(self.send(self.client, "/nothing", 3), 404)
            self.assertEqual(self.send(self.client, "/other", 2), 403)
            self.assertEqual(self.send(self.other, "/books-bought", 5), 403)
            self.assert_counted(prometheus)
        with self.subTest("errors of the application, and an application that is gone"):
            self.configure(permissive=True, enableEnvoyActiveHealthChecks=True)
            self.wait_for_answer(self.client, 500, "/status/500")
            self.wait_for_answer(self.other, 418, "/status/418")
            self.app.end()
            self.assertEqual(self.send(self.client, "/books-bought", 4), 503)
            self.assertEqual(self.send(self.other, "/books-bought", 1), 503)
            self.assert_counted(prometheus)
        with self.subTest("health checks of sidecars are no requests"):
            wait_for(
                "a client's sidecar probes the server",
                lambda: any(self.client.stats(r"health_check\.success").values()),
                90,
            )
            self.assert_counted(prometheus)
        with self.subTest("nobody calls the clients, and their sidecars count nothing"):
            self.assertEqual(prometheus.query('osm_request_total{instance!="10.200.0.12:15010"}'), [])
        with self.subTest("the rules for pods make the same series, found by the port's name"):
            pods = Prometheus(
                self.rig,
                {
                    f"{machine.address}:15010": {
                        "__meta_kubernetes_pod_container_port_name": port,
                        "__meta_kubernetes_pod_phase": "Running",
                        "__meta_kubernetes_namespace": machine.ns,
                        "__meta_kubernetes_pod_name": f"{machine.name}-0",
                    }
                    for machine, port in ((self.server, "proxy-metrics"), (self.client, "http"))
                },
                "kubernetes.yaml",
                9095,
            )
            self.assert_counted(pods)
            self.assertEqual(
                {(labels["namespace"], labels["pod"]) for labels, _ in pods.query("osm_request_total")},
                {("server", "server-0")},
            )
            self.assertEqual(pods.value("count(up)"), 1)

    def test_alerts_fire_and_stop_and_dashboards_show_a_healthy_mesh(self):
        self.start()
        prometheus = Prometheus(
            self.rig,
            {f"{machine.address}:15010": {} for machine in self.rig.machines.values()},
            controllers=[f"{Switch.ADDRESS}:{HTTP_PORT}"],
        )
        self.wait_for_answer(self.client, 200, "/books-bought")
        self.assertEqual(self.send(self.other, "/books-bought"), 403)
        self.wait_until_synced()

        def break_a_policy(broken):
            self.rig.mesh.write(
                "broken.yaml",
                objects.target(
                    "server",
                    "broken",
                    "server",
                    [("other", "other")],
                    ("HTTPRouteGroup" if not broken else "NoKind", "routes", ["other"]),
                ),
            )

        def wait_for_alerts(what, *alerts):
            def fire():
                firing = prometheus.firing()
                if firing != set(alerts):
                    raise NotYet(f"{firing} instead of {set(alerts)}")
                return True

            wait_for(what, fire, 60)

        with self.subTest("an object that is left out"):
            break_a_policy(True)
            wait_for_alerts("the alert fires, and no other", "OsmProblems")
            break_a_policy(False)
            wait_for_alerts("no alert fires")
        with self.subTest("every metric and label of the rules for this mesh is scraped"):
            rules = alert_rules()
            used = [
                rule["expr"]
                for group in ("osm-controller", "osm-proxies", "osm-certificates", "osm-sidecars")
                for rule in rules[group]
            ]
            self.assertEqual(prometheus.unknown(used), set())
        for dashboard in ("control-plane", "data-plane"):
            with self.subTest("every panel shows something", dashboard=dashboard):
                wait_for("no panel is empty", lambda: self.none_of(prometheus.empty(dashboard)), 15)
        with self.subTest("propagation counts the wait before the build too"):
            stages = {
                labels["stage"]: value
                for labels, value in prometheus.query("sum by (stage) (osm_push_stage_seconds_count)")
            }
            self.assertEqual(set(stages), {"debounce", "deliver", "class", "translate", "queue", "write", "ack"})
        with self.subTest("a controller that is gone, and returns"):
            self.rig.stop_controller()
            wait_for_alerts("its alerts fire", "OsmControllerDown", "OsmReplicaDown", "OsmSidecarDisconnected")
            self.rig.start_controller()
            wait_for_alerts("no alert fires")

    @staticmethod
    def none_of(found):
        if found:
            raise NotYet(found)
        return True

    def test_gateways_are_told_apart_from_accounts(self):
        service = objects.service("server", "server", "10.96.0.12", meshcase.PORT)
        service["spec"]["ports"].append({"name": "http-proven", "port": 443, "targetPort": PROVEN})
        self.rig.mesh.write("server.yaml", service)
        gateway = self.rig.switch.plug_in("gateway", "10.200.0.21")
        self.addCleanup(gateway.delete)
        self.rig.mesh.write(
            "ingress.yaml",
            objects.ingress_backend(
                "server", "plain", {("server", meshcase.PORT): {"protocol": "http"}}, ("IPRange", "10.200.0.21/32")
            ),
            objects.ingress_backend(
                "server",
                "proven",
                {("server", PROVEN): {"protocol": "https", "skipClientCertValidation": False, "sniHosts": [SNI]}},
                ("AuthenticatedPrincipal", PRINCIPAL),
            ),
        )
        self.start()
        self.server.run("proven", sys.executable, str(APP), "--port", str(PROVEN))
        identity = Authority(self.rig.directory / "gateways", self.rig.state / "ca" / "ca.pem").named(
            "gateway", f"DNS:{PRINCIPAL}", "URI:spiffe://cluster.local/osm/gateway/edge"
        )
        sent = collections.Counter()

        def ask(namespace, proven=False):
            status = (
                gateways.ask_tls(namespace, self.server.address, PROVEN, SNI, identity)
                if proven
                else gateways.ask(namespace, self.server.address, meshcase.PORT)
            )[0]
            if status != REFUSED:
                sent[("IngressGateway", "edge") if proven else ("unknown", None), str(status)] += 1
            return status

        for proven in (False, True):
            wait_for("the gateway is answered", lambda: ask(gateway, proven) == 200, 20)
        for _ in range(3):
            self.assertEqual(ask(gateway), 200)
            self.assertEqual(ask(self.rig.switch.namespace), 403)
            self.assertEqual(ask(gateway, proven=True), 200)
        prometheus = Prometheus(self.rig, {f"{self.server.address}:15010": {}})

        def counted():
            got = {
                ((labels["source_kind"], labels.get("source_name")), labels["response_code"]): value
                for labels, value in prometheus.query("osm_request_total")
            }
            if got != sent:
                raise NotYet(f"{got} instead of {sent}")
            return True

        wait_for("the counts equal the requests", counted, 30)
        self.assertEqual(
            {
                labels.get("destination_name")
                for labels, _ in prometheus.query('osm_request_total{source_kind="IngressGateway"}')
            },
            {"server"},
        )

    def test_without_the_flag_nothing_is_counted_and_the_port_answers(self):
        self.configure(counted=False)
        self.start()
        self.wait_for_answer(self.client, 200, "/books-bought")
        self.assertIn("envoy_http_downstream_rq_xx", self.page(self.server))
        self.assertNotIn("osm_request", self.page(self.server))
        self.configure()

        def counted():
            self.send(self.client, "/books-bought")
            return "envoy_osm_request_total{" in self.page(self.server)

        wait_for("requests are counted once the flag is set", counted, 30)

    def test_series_are_bounded_by_callers_and_statuses_and_their_cost_is_known(self):
        """Callers past their proxies, with certificates of the mesh's CA, each of another account."""
        self.configure(permissive=True)
        self.start()
        self.wait_for_answer(self.client, 200, "/books-bought")
        authority = Authority(self.rig.directory / "peers", self.rig.state / "ca" / "ca.pem")
        roots = self.client.directory / "cacert.pem"
        peers = [
            http2.client_context(
                roots,
                authority.for_days(f"peer-{n}", f"spiffe://cluster.local/ns/namespace-{n % 7}/sa/an-account-{n}"),
                alpn="osm",
            )
            for n in range(PEERS)
        ]
        outsider = http2.client_context(
            roots,
            Authority(self.rig.directory / "outsider").for_days(
                "outsider", "spiffe://cluster.local/ns/namespace-1/sa/outsider"
            ),
            alpn="osm",
        )

        def call(context, paths, headers=(), method="GET"):
            with context.wrap_socket(
                self.client.namespace.connect(self.server.address, meshcase.PORT, uid=1500), server_hostname=FQDN
            ) as tls:
                connection = http.client.HTTPConnection("unused")
                connection.sock, connection.auto_open = tls, 0
                for path in paths:
                    connection.request(method, path, headers={"host": FQDN, **dict(headers)})
                    connection.getresponse().read()

        def series():
            return set(re.findall(r"^envoy_osm_request_total\{(.*)\} ", self.page(self.server), re.M))

        def cost():
            """(bytes of memory, bytes of the page)"""
            return (int(json.loads(self.server.admin("/memory")[1])["allocated"]), len(self.page(self.server)))

        call(peers[0], ["/status/200"])
        few = series()
        with self.subTest("what a caller writes makes no series"):
            for n in range(20):
                call(
                    peers[0],
                    [f"/status/200?{n}"],
                    {
                        "user-agent": f"a{n}",
                        "x-request-id": f"r{n}",
                        "x-forwarded-for": f"10.0.0.{n}",
                        "x-forwarded-client-cert": f"URI=spiffe://cluster.local/ns/forged/sa/a{n}",
                        "osm-stats-pod": f"p{n}",
                        "osm-stats-namespace": f"n{n}",
                    },
                    method=("GET", "POST", "PUT")[n % 3],
                )
            self.assertEqual(len(series() - few), 1)  # PUT, which the application does not know: 501
        with self.subTest("nor does a caller without a certificate of the mesh"):
            with self.assertRaises(OSError):
                call(outsider, ["/status/200"])
            self.assertFalse(any("outsider" in labels for labels in series()))
        known = series()
        memory, text = cost()
        paths = [f"/status/{200 + n}" for n in range(STATUSES) if 200 + n not in (204, 205)]
        for peer in peers:
            call(peer, paths)
        made = len(series() - known)
        more_memory, more_text = (after - before for after, before in zip(cost(), (memory, text)))
        with self.subTest("a series for each account and status, and no other"):
            self.assertEqual(made, PEERS * len(paths) - 1)  # the first peer's 200 was there
            self.assertEqual(self.page(self.server).count("envoy_osm_request_duration_ms_count"), 1)
        with self.subTest("of the size that docs/metrics.md says"):
            print(
                f"{made} series: {more_memory / made:.0f} bytes of memory and {more_text / made:.0f} of the page each",
                file=sys.stderr,
            )
            self.assertLess(more_memory / made, 1000)
            self.assertLess(more_text / made, 300)


if __name__ == "__main__":
    meshcase.main()
