#!/usr/bin/python3
"""Every grant of charts/osm is used: what the daemons ask an API server for while a mesh is
installed, used and disturbed is compared with what they may. e2e.kubernetes.rbac tries the rest."""

import json

import rbac_test

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.rotation import root
from lib.mesh import meshcase, objects
from lib.net.processes import NotYet, wait_for

NS = "shop"
# Grants that no test can wait for, and what proves that they are needed.
NOT_HERE = {
    ("osm-controller", "delete", "secrets"): "a pod that does not come within ten minutes: kubernetes::SecretKeeper",
    ("osm-controller", "create", "secrets"): "the CA, when osm-injector was not first to make it: "
    "e2e.kubernetes.controller",
    ("osm-injector", "get", "namespaces"): "a pod that is made before the watch tells of its "
    "namespace: e2e.kubernetes.injection",
    ("osm-controller", "create", "tokenreviews.authentication.k8s.io"): "e2e.kubernetes.replicas",
    (
        "osm-controller",
        "patch",
        "azureresources/status.workload.openservicemesh.io",
    ): "the same code as for VirtualMachines: e2e.kubernetes.hybrid",
    (
        "osm-controller",
        "patch",
        "dnsresources/status.workload.openservicemesh.io",
    ): "the same code as for VirtualMachines: e2e.kubernetes.hybrid",
    ("osm-controller", "patch", "virtualmachines/status.workload.openservicemesh.io"): "e2e.kubernetes.hybrid",
}


class GrantsTest(kubecase.MeshCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api.apply(
            mesh.namespace(NS),
            *(k8s.account(NS, a) for a in ("server", "client")),
            k8s.service(NS, "server"),
            k8s.deployment(NS, "server", account="server"),
            objects.routes(NS, "routes", all={"pathRegex": "/.*", "methods": ["*"]}),
            objects.target(NS, "access", "server", [(NS, "client")], ("HTTPRouteGroup", "routes", ["all"])),
            {
                "apiVersion": "specs.smi-spec.io/v1alpha4",
                "kind": "TCPRoute",
                "metadata": {"name": "tcp", "namespace": NS},
                "spec": {},
            },
            {
                "apiVersion": "split.smi-spec.io/v1alpha2",
                "kind": "TrafficSplit",
                "metadata": {"name": "split", "namespace": NS},
                "spec": {"service": "server", "backends": [{"service": "server", "weight": 100}]},
            },
            objects.denylist("nobody", accounts=[(NS, "nobody")]),
            objects.retry(NS, "again", "client", [(NS, "server")]),
            objects.upstream_setting(NS, "limits", f"server.{NS}"),
            objects.ingress_backend(
                NS, "in", {("server", k8s.PORT): {"protocol": "http"}}, ("IPRange", "192.0.2.0/24")
            ),
            objects.egress(NS, "out", ["client"], {8443: "TCP"}, addresses=["192.0.2.0/24"]),
            objects.telemetry(NS, "logs", openTelemetry={"extensionService": {"namespace": NS, "name": "collector"}}),
            objects.extension_service(NS, "collector", "192.0.2.9", 4317),
            {
                "apiVersion": "workload.openservicemesh.io/v1alpha1",
                "kind": "ServiceProvider",
                "metadata": {"name": "order", "namespace": NS},
                "spec": {"service": "server", "providers": [{"name": "kubernetes"}]},
            },
            # It names what is not there: an Event says so.
            objects.target(NS, "lost", "server", [(NS, "client")], ("HTTPRouteGroup", "nowhere", ["all"])),
        )
        cls.wait_until_available(NS, "server")
        # `osm status` gets its object, which need not be there.
        for kind in (
            "svc",
            "tt",
            "htr",
            "tr",
            "ts",
            "egr",
            "ib",
            "rty",
            "uts",
            "tel",
            "extsvc",
            "vm",
            "dns",
            "az",
            "sp",
        ):
            cls.ask_for_status(kind, f"{NS}/access")
        for kind, name in (("ns", NS), ("mc", "osm-mesh-config"), ("dl", f"{mesh.SYSTEM}/nobody")):
            cls.ask_for_status(kind, name)
        # `osm get` also reads kinds that shape no proxy.
        cls.cluster.run(meshcase._programs.osm, "get", "MeshRootCertificate", f"{mesh.SYSTEM}/none")
        cls.account = mesh.osm(cls.cluster, "get", "ServiceAccount", f"{NS}/server")
        cls.disturb()

    @classmethod
    def ask_for_status(cls, kind, name):
        cls.cluster.run(meshcase._programs.osm, "status", kind, name)

    @classmethod
    def disturb(cls):
        """Deletes, and changes, what the daemons keep up."""
        hooks = (
            ("ValidatingWebhookConfiguration", "libosm-validator-osm"),
            ("MutatingWebhookConfiguration", "libosm-webhook-osm"),
        )
        for kind, name in hooks:
            cls.api.patch(kind, None, name, [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}])
            wait_for(
                f"{name} is as it was",
                lambda k=kind, n=name: cls.api.get(k, None, n)["webhooks"][0]["failurePolicy"] == "Fail",
                30,
            )
            # A part that an apply leaves, because another client wrote it.
            other = {**cls.api.get(kind, None, name)["webhooks"][0], "name": "other.example.org"}
            cls.api.patch(kind, None, name, [{"op": "add", "path": "/webhooks/-", "value": other}])
            wait_for(
                f"{name} has no other webhook",
                lambda k=kind, n=name, o=other: (
                    o["name"] not in {hook["name"] for hook in cls.api.get(k, None, n)["webhooks"]}
                ),
                30,
            )
            cls.api.delete(kind, None, name)  # an Event tells
            wait_for(
                f"an Event tells of {name}",
                lambda n=name: (
                    n
                    in {
                        e["regarding"]["name"]
                        for e in cls.api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
                    }
                ),
                30,
            )
        cls.mesh.install()
        # A replica goes, and takes its Lease with it; whoever is first makes the record.
        for daemon in ("osm-injector", "osm-controller"):
            wait_for(
                f"{daemon} makes the record",
                lambda d=daemon: cls.makes_the_record(d),
                120,
                retry=(json.JSONDecodeError,),
            )
        # The CA that is there anyway, declared.
        cls.api.apply(
            root("declared", {"tresor": {"ca": {"secretRef": {"name": "osm-ca-bundle", "namespace": mesh.SYSTEM}}}})
        )

    @classmethod
    def makes_the_record(cls, daemon):
        """False if another daemon, which runs, made it first."""
        cls.api.delete("ConfigMap", mesh.SYSTEM, "osm-root-rotation")
        cls.restart(mesh.SYSTEM, daemon)
        cls.api.get("ConfigMap", mesh.SYSTEM, "osm-root-rotation")
        return ("create", "configmaps", mesh.SYSTEM) in cls.used(daemon)

    def granted(self, account):
        """{(verb, resource, namespace or "*")}; by name counts as its resource."""
        found = {(verb, resource, "*") for resource, verbs in rbac_test.EVERYWHERE[account].items() for verb in verbs}
        found |= {
            (verb, resource, mesh.SYSTEM) for resource, verbs in rbac_test.AT_HOME[account].items() for verb in verbs
        }
        found |= rbac_test.ELSE[account]
        return found | {
            (verb, resource, ns or "*")
            for (resource, ns, _), verbs in rbac_test.BY_NAME[account].items()
            for verb in verbs
        }

    @classmethod
    def used(cls, account):
        """The requested verb, and the verb that an apply needs to create."""
        found = set()
        for (verb, resource, ns), codes in cls.cluster.requests_of(account).items():
            if all(code == 403 for code in codes):
                continue
            for verb_used in {verb} | ({"create"} if verb == "patch" and 201 in codes else set()):
                found |= {(verb_used, resource, "*")} | ({(verb_used, resource, ns)} if ns else set())
        return found

    def check(self, account):
        def all_used():
            rest = {
                grant for grant in self.granted(account) - self.used(account) if (account, *grant[:2]) not in NOT_HERE
            }
            if rest:
                raise NotYet(sorted(rest))
            return True

        wait_for(
            f"each grant of {account} is used", all_used, 60, interval=1, retry=(json.JSONDecodeError,)
        )  # the audit log ends in half a line

    def test_each_grant_of_the_controller_is_used(self):
        self.check("osm-controller")

    def test_each_grant_of_the_injector_is_used(self):
        self.check("osm-injector")

    def test_an_account_can_be_read(self):
        self.assertRegex(self.account, rf"{NS} +server ")

    def test_verbs_that_are_excused_are_granted(self):
        for account, verb, resource in NOT_HERE:
            self.assertIn((verb, resource), {g[:2] for g in self.granted(account)})


if __name__ == "__main__":
    kubecase.main()
