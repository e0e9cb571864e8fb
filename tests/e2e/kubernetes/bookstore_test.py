#!/usr/bin/python3
"""The bookstore's splits, permissions, permissive mode, retries, limits and access logs are in effect on
Kubernetes, while policies, modes and namespaces change.
"""

import json
import time

from lib.kube import kubecase, mesh, shop
from lib.kube import kubeobjects as k8s
from lib.mesh import objects
from lib.mesh.rig import XDS
from lib.net.processes import NotYet, wait_for

V1 = f"bookstore-v1.bookstore:{shop.PORT}"


class BookstoreTest(kubecase.MeshCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shop.install(cls)

    def setUp(self):
        super().setUp()
        self.api.apply(objects.mesh_config())
        self.cluster.kubectl("apply", "-f", shop.FILES / "mesh/thief.yaml")
        for name in ("bookbuyer", "bookthief"):
            self.api.apply(shop.client(name, name, "buy", shop.SHOP, 50))
        for name in ("bookbuyer", "bookthief"):
            self.wait_until_available(name, name)
        self.buyer, self.thief = (self.pod_of(n, n) for n in ("bookbuyer", "bookthief"))
        for client in (self.buyer, self.thief):
            self.wait_for_results(client, 200, 30)

    def calls(self, client, since):
        return [call for call in client.calls("app") if call["t"] >= since]

    def results(self, client, since):
        return {call["status"] for call in self.calls(client, since)}

    def wait_for_results(self, client, wanted, timeout=15):
        """Until the last ten requests of a client had this result."""

        def seen():
            last = [c["status"] for c in client.calls("app")[-10:]]
            if last != [wanted] * 10:
                raise NotYet(last)
            return time.time()

        return wait_for(f"{client.name} gets {wanted}", seen, timeout)

    def wait_for_refusal(self, client, timeout=15):
        """Until the last ten requests of a client were refused: by status on a connection that it
        had, by no connection otherwise. Its sidecar, if it has one, is live."""

        def seen():
            last = [c["status"] for c in client.calls("app")[-10:]]
            if len(last) < 10 or not set(last) <= {0, 403}:
                raise NotYet(last)
            if client.has_sidecar() and not client.has_live_sidecar():
                raise NotYet("its Envoy is not live")
            return time.time()

        return wait_for(f"{client.name} is refused", seen, timeout)

    def test_sidecars_speak_the_variant_of_xds_that_was_installed(self):
        wanted = {"delta": "DELTA_GRPC", "sotw": "GRPC"}[XDS]
        status, dump = self.buyer.admin("/config_dump")
        self.assertEqual(200, status)
        bootstrap = next(c["bootstrap"] for c in json.loads(dump)["configs"] if "bootstrap" in c)
        self.assertEqual(wanted, bootstrap["dynamic_resources"]["ads_config"]["api_type"])

    def test_both_versions_answer_and_know_who_asks(self):
        since = time.time()

        def both():
            calls = [c for c in self.calls(self.buyer, since) if c["status"] == 200]
            return {c["version"] for c in calls} == {"v1", "v2"} and {c["caller"] for c in calls} == {shop.BUYER}

        wait_for("both versions answer the buyer, whom they know", both)

    def test_a_permission_that_is_deleted_is_gone_for_its_owner_alone(self):
        since = time.time()
        self.cluster.kubectl("delete", "-f", shop.FILES / "mesh/thief.yaml")
        denied = self.wait_for_refusal(self.thief)
        wait_for(
            "both clients have called again",
            lambda: all(len(self.calls(client, denied)) >= 20 for client in (self.buyer, self.thief)),
        )
        self.assertEqual({200}, self.results(self.buyer, since))
        self.assertLessEqual(self.results(self.thief, denied), {0, 403})

    def test_a_split_that_shifts_shifts_who_answers(self):
        self.addCleanup(self.cluster.kubectl, "apply", "-f", shop.FILES / "mesh/split.yaml")
        self.cluster.kubectl("apply", "-f", shop.FILES / "steps/split.yaml")

        def shifted():
            last = self.buyer.calls("app")[-100:]
            share = sum(c["version"] == "v2" for c in last) / len(last)
            if share < 0.8:
                raise NotYet(share)
            return time.time()

        since = wait_for("v2 answers most requests", shifted, 30)
        wait_for("v1 still answers some", lambda: "v1" in {c["version"] for c in self.calls(self.buyer, since)})

    def test_permissive_mode_lets_everybody_in_and_smi_mode_does_not(self):
        since = time.time()
        self.cluster.kubectl("delete", "-f", shop.FILES / "mesh/thief.yaml")
        self.wait_for_refusal(self.thief)
        self.api.apply(objects.mesh_config(permissive=True))
        self.wait_for_results(self.thief, 200)
        self.api.apply(objects.mesh_config())
        self.wait_for_refusal(self.thief)
        self.assertEqual({200}, self.results(self.buyer, since))

    def test_a_namespace_that_leaves_is_outside_and_one_that_joins_is_inside(self):
        ns = "mover"  # the other tests go on without it, however this one ends
        self.api.apply(
            mesh.namespace(ns),
            k8s.account(ns, ns),
            objects.target(
                "bookstore", ns, "bookstore-v1", [(ns, ns)], ("HTTPRouteGroup", "bookstore", ["buy-a-book"])
            ),
            shop.client(ns, ns, "buy", V1, 50),
        )
        self.addCleanup(self.api.delete, "Namespace", None, ns)
        self.addCleanup(self.api.delete, "TrafficTarget", "bookstore", ns)
        self.wait_until_available(ns, ns)
        self.wait_for_results(self.pod_of(ns, ns), 200, 30)
        self.cluster.kubectl("label", "namespace", ns, "openservicemesh.io/monitored-by-")
        self.restart(ns, ns)
        outside = self.pod_of(ns, ns)
        self.assertFalse(outside.has_sidecar())
        self.wait_for_refusal(outside)
        self.api.apply(mesh.namespace(ns))
        self.restart(ns, ns)
        inside = self.pod_of(ns, ns)
        self.assertTrue(inside.has_sidecar())
        self.wait_for_results(inside, 200)

    def test_a_new_namespace_joins_a_running_mesh(self):
        ns = "newcomer"
        self.api.apply(
            mesh.namespace(ns),
            k8s.account(ns, "client"),
            objects.target(
                "bookstore",
                "newcomer",
                "bookstore-v1",
                [(ns, "client")],
                ("HTTPRouteGroup", "bookstore", ["books-bought"]),
            ),
            k8s.deployment(
                ns,
                "client",
                [k8s.shell_container("app", "trap 'exit 0' TERM; while :; do sleep 0.1; done")],
                account="client",
            ),
        )
        self.addCleanup(self.api.delete, "Namespace", None, ns)
        self.wait_until_available(ns, "client")
        pod = self.pod_of(ns, "client")
        self.wait_for_answer(pod, 200, f"{V1}/books-bought")
        self.wait_for_answer(pod, 0, f"bookstore-v2.bookstore:{shop.PORT}/books-bought")

    def test_a_service_that_is_scaled_to_zero_answers_503_until_it_is_back(self):
        client, url = self.start_clients("sleepy", "server"), f"server.sleepy:{k8s.PORT}/"
        self.wait_for_answer(client, 200, url)
        for replicas, status in ((0, 503), (1, 200)):
            self.cluster.kubectl("scale", "-n", "sleepy", "deployment/server", f"--replicas={replicas}")
            self.wait_for_answer(client, status, url, timeout=40)
            wait_for(
                "the pods are what was asked for",
                lambda: replicas == len([p for p in self.pods("sleepy") if "server" in p["metadata"]["name"]]),
                40,
            )
            for _ in range(20):  # also once the controller has forgotten the last pod
                self.assertEqual(status, client.get(url)[0])
                time.sleep(0.1)

    def test_a_service_of_others_is_reached_past_the_mesh_where_egress_allows_it(self):
        ns, outside = "reaching", "outside"
        client = self.start_clients(ns)
        self.api.apply(objects.namespace(outside, {}), k8s.deployment(outside, "server"))
        self.addCleanup(self.api.delete, "Namespace", None, outside)
        self.wait_until_available(outside, "server")
        (server,) = self.pods(outside, "server")
        unselecting = k8s.service(ns, "database")
        del unselecting["spec"]["selector"]
        port = unselecting["spec"]["ports"][0]
        self.api.apply(
            unselecting,
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": "database-1",
                    "namespace": ns,
                    "labels": {"kubernetes.io/service-name": "database"},
                },
                "addressType": "IPv4",
                "ports": [{"name": port["name"], "port": k8s.PORT}],
                "endpoints": [{"addresses": [server["status"]["podIP"]]}],
            },
        )
        url = f"database.{ns}:{k8s.PORT}/"
        self.wait_for_answer(client, 0, url)
        wait_for(
            "an Event tells why",
            lambda: [
                e
                for e in self.api.request("GET", f"/apis/events.k8s.io/v1/namespaces/{ns}/events")["items"]
                if e["regarding"]["name"] == "database" and "egress is off" in e["note"]
            ],
        )
        for permissive, refusal in ((False, 0), (True, 503)):
            self.api.apply(objects.mesh_config(permissive))
            self.wait_for_answer(client, refusal, url)
            self.api.apply(objects.mesh_config(permissive, egress=True))
            self.wait_for_answer(client, 200, url)

    def test_an_egress_opens_a_server_outside_of_the_mesh_and_its_conditions_tell(self):
        ns, outside = "leaving", "abroad"
        client = self.start_clients(ns)
        self.api.apply(objects.namespace(outside, {}), k8s.deployment(outside, "server"))
        self.addCleanup(self.api.delete, "Namespace", None, outside)
        self.wait_until_available(outside, "server")
        (server,) = self.pods(outside, "server")
        address = server["status"]["podIP"]
        url = f"{address}:{k8s.PORT}/"
        for permissive in (False, True):
            self.api.apply(objects.mesh_config(permissive))
            self.wait_for_answer(client, 0, url)
            self.api.apply(objects.egress(ns, "out", ["client"], {k8s.PORT: "HTTP"}, [address]))
            self.wait_for_answer(client, 200, url)
            self.wait_until_programmed("Egress", ns, "out")
            self.api.delete("Egress", ns, "out")
            self.wait_for_answer(client, 0, url)

    def test_a_retry_sends_failed_requests_again_and_its_conditions_tell(self):
        ns = "patient"
        client, keys = self.start_clients(ns, "server"), iter(range(1000))
        self.api.apply(objects.retry(ns, "again", "client", [(ns, "server")]))
        wait_for("the Retry was read", lambda: self.conditions("Retry", ns, "again"), 30, retry=(KeyError,))

        def wait_for_tries(wanted):
            def tried():
                url, key = f"server.{ns}:{k8s.PORT}", next(keys)
                status = client.get(f"{url}/tries/{key}?fail=2")[0]
                tries = json.loads(client.get(f"{url}/count/{key}")[1])["tries"]
                if (status, tries) != wanted:
                    raise NotYet((status, tries))
                return True

            wait_for(f"status and tries are {wanted}", tried, 30, retry=(ValueError,))

        wait_for_tries((503, 1))  # MeshConfig does not obey Retries
        self.api.apply(objects.mesh_config(featureFlags={"enableRetryPolicy": True}))
        wait_for_tries((200, 3))
        self.wait_until_programmed("Retry", ns, "again")
        self.api.delete("Retry", ns, "again")
        wait_for_tries((503, 1))

    def test_limits_of_a_service_hold_and_their_conditions_tell(self):
        ns = "limited"
        client, url = self.start_clients(ns, "server"), f"server.{ns}:{k8s.PORT}/"
        for permissive, requests, host in ((False, 3, f"server.{ns}"), (True, 4, f"server.{ns}.svc.cluster.local")):
            self.api.apply(objects.mesh_config(permissive))
            self.wait_for_answer(client, 200, url)
            self.api.apply(
                objects.upstream_setting(
                    ns,
                    "limits",
                    host,
                    rateLimit={"local": {"http": {"requests": requests, "unit": "hour", "responseStatusCode": 507}}},
                )
            )

            self.wait_until_programmed("UpstreamTrafficSetting", ns, "limits")
            got = [client.get(url)[0] for _ in range(requests + 3)]
            self.assertEqual([200] * requests + [507] * 3, got)
            self.api.delete("UpstreamTrafficSetting", ns, "limits")
            self.wait_for_answer(client, 200, url, timeout=30)

    def test_a_telemetry_selects_pods_by_their_labels_and_its_conditions_tell(self):
        ns = "logged"
        client, url = self.start_clients(ns, "server"), f"server.{ns}:{k8s.PORT}/"
        server = self.pod_of(ns, "server")

        def wait_for_line(pod, part):
            """Until a request's line is there. Envoy writes its log every ten seconds."""

            def logged():
                self.assertEqual(client.get(url)[0], 200)
                if part not in pod.log("envoy"):
                    raise NotYet(pod.log("envoy")[-500:])
                return True

            wait_for(f"{pod.name} logs {part}", logged, 60, interval=0.2)

        self.wait_for_answer(client, 200, url)
        self.api.apply(objects.telemetry(mesh.SYSTEM, "all", format="of the mesh"))
        self.addCleanup(self.api.delete, "Telemetry", mesh.SYSTEM, "all")
        self.api.apply(objects.telemetry(ns, "server", {"app": "server"}, format="of the label"))
        wait_for_line(server, "\nof the label\n")
        wait_for_line(client, "\nof the mesh\n")
        for name_space, name in ((ns, "server"), (mesh.SYSTEM, "all")):
            self.wait_until_programmed("Telemetry", name_space, name)


if __name__ == "__main__":
    kubecase.main()
