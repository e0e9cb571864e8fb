#!/usr/bin/python3
"""Each member of a StatefulSet is reached under its own names, also after it was replaced."""

import json

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.mesh import objects
from lib.net.processes import wait_for

NS, MEMBERS = "store", ("store-0", "store-1")


def stateful_set():
    made = k8s.deployment(NS, "store", replicas=len(MEMBERS), account="store")
    made["kind"] = "StatefulSet"
    del made["spec"]["strategy"]
    made["spec"].update(serviceName="store", podManagementPolicy="Parallel")
    return made


class StatefulSetTest(kubecase.MeshCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api.apply(mesh.namespace(NS), mesh.namespace("client"))
        cls.api.apply(
            k8s.account(NS, "store"),
            k8s.account("client", "client"),
            # As charts do it: the members are found before they are ready.
            k8s.service(NS, "store", 80, k8s.PORT, clusterIP="None", publishNotReadyAddresses=True),
            objects.routes(NS, "all", all={"pathRegex": ".*"}),
            objects.target(
                NS, "access", "store", [("client", "client"), (NS, "store")], ("HTTPRouteGroup", "all", ["all"])
            ),
            stateful_set(),
            k8s.deployment("client", "client", account="client"),
            k8s.deployment("client", "stranger"),
        )
        cls.wait_until_available("client", "client")
        cls.wait_until_available("client", "stranger")
        cls.client, cls.stranger = (cls.pod_of("client", app) for app in ("client", "stranger"))

    def member(self, name):
        """The InjectedPod that has the name now."""
        return self.mesh.run_of(
            self.api.wait_for(
                "is ready",
                "Pod",
                NS,
                name,
                lambda p: any(
                    c["type"] == "Ready" and c["status"] == "True" for c in p.get("status", {}).get("conditions", [])
                ),
                40,
            )
        )

    def who_answers(self, pod, url):
        return json.loads(self.wait_for_answer(pod, 200, url))["pod"]

    def test_each_member_answers_under_its_own_names_at_either_port(self):
        for member in MEMBERS:
            for name in (
                f"{member}.store.{NS}",
                f"{member}.store.{NS}.svc.cluster.local",
                self.client.resolve(f"{member}.store.{NS}"),
            ):
                for port in (80, k8s.PORT):
                    self.assertEqual(
                        {member}, {self.who_answers(self.client, f"{name}:{port}/") for _ in range(4)}, (name, port)
                    )

    def test_members_reach_each_other_and_themselves(self):
        for dialling in MEMBERS:
            pod = self.member(dialling)
            for member in MEMBERS:
                self.assertEqual(member, self.who_answers(pod, f"{member}.store:{k8s.PORT}/"), dialling)

    def test_unauthorized_clients_reach_no_member(self):
        for member in MEMBERS:
            self.who_answers(self.client, f"{member}.store.{NS}:{k8s.PORT}/")
            self.assertEqual(0, self.stranger.get(f"{member}.store.{NS}:{k8s.PORT}/")[0])

    def test_a_member_that_is_made_anew_is_reached_at_its_new_address(self):
        name = f"store-1.store.{NS}"
        before = self.client.resolve(name)
        self.member("store-1")
        self.assertEqual("store-1", self.who_answers(self.client, f"{name}:80/"))
        self.api.delete("Pod", NS, "store-1")
        wait_for("it has a new address", lambda: self.client.resolve(name) not in (name, before), 60)
        self.assertEqual("store-1", self.who_answers(self.client, f"{name}:80/"))
        wait_for("its old one leads nowhere", lambda: self.client.get(f"{before}:80/")[0] == 0, 20)


if __name__ == "__main__":
    kubecase.main()
