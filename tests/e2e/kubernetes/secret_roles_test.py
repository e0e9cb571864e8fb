#!/usr/bin/python3
"""With a Role in each namespace the daemons reach no other Secrets; a namespace without it is reported and
harms no other.
"""

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import ApiError
from lib.net.processes import wait_for

PREFIX = "envoy-bootstrap-config-"
REMEDY = (
    "kubectl create rolebinding {0}-secrets-osm -n {1} --clusterrole={0}-secrets-osm --serviceaccount=osm-system:{0}"
)


class SecretRolesTest(kubecase.MeshCase):
    @staticmethod
    def install(installed):
        installed.install("osm.secretsByNamespace=true")

    def namespace(self, name, bound):
        self.api.apply(mesh.namespace(name))
        if bound:
            mesh.grant(self.cluster, name)
        wait_for("its ServiceAccount is made", lambda: self.api.find("ServiceAccount", name, "default"))

    def run_remedy(self, account, ns, text):
        command = REMEDY.format(account, ns)
        self.assertIn(f"`{command}`", text)
        self.cluster.kubectl(*command.split()[1:])

    @staticmethod
    def pod(ns):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "app", "namespace": ns},
            "spec": {"containers": [k8s.shell_container("app", "exec sleep 600")], "terminationGracePeriodSeconds": 1},
        }

    def owned(self, ns):
        """Owners of the bootstrap Secrets of a namespace."""
        return [
            owner["name"]
            for secret in self.api.list("Secret", ns)
            if secret["metadata"]["name"].startswith(PREFIX)
            for owner in secret["metadata"].get("ownerReferences", [])
        ]

    def told(self):
        """The controller's metrics, which have its problems."""
        (pod,) = self.pods(mesh.SYSTEM, "osm-controller")
        return self.cluster.namespace.http(pod["status"]["podIP"], 9091, "GET", "/metrics")[1]

    def test_a_namespace_without_roles_is_told_of_and_harms_no_other(self):
        self.namespace("shop", bound=True)
        self.namespace("stray", bound=False)
        self.api.create(self.pod("shop"))
        wait_for("the Secret belongs to its pod", lambda: self.owned("shop") == ["app"], 20)
        with self.assertRaises(ApiError) as refused:
            self.api.create(self.pod("stray"))
        wait_for("the controller tells of it", lambda: "-n stray" in self.told(), 20)

        self.run_remedy("osm-injector", "stray", refused.exception.message)
        self.run_remedy("osm-controller", "stray", self.told())
        wait_for("a pod is created there", lambda: self.api.create(self.pod("stray")), 20, retry=(ApiError,))
        wait_for("the Secret belongs to its pod", lambda: self.owned("stray") == ["app"], 20)
        wait_for("nothing is told of", lambda: "create rolebinding" not in self.told(), 20)

    def may(self, account, verb, ns):
        review = self.api.request(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": f"system:serviceaccount:{mesh.SYSTEM}:{account}",
                    "resourceAttributes": {"verb": verb, "resource": "secrets", "namespace": ns},
                },
            },
        )
        return review["status"]["allowed"]

    def test_stolen_tokens_reach_secrets_of_the_meshs_namespaces_only(self):
        self.namespace("bound", bound=True)
        rights = {"osm-controller": ("list", "watch", "patch", "delete"), "osm-injector": ("create",)}
        for account, verbs in rights.items():
            for verb in verbs:
                wait_for("the binding is in force", lambda: self.may(account, verb, "bound"), 10)
                for ns in ("elsewhere", "kube-system", ""):
                    self.assertFalse(self.may(account, verb, ns), (account, verb, ns))
        for verb in rights["osm-controller"]:  # there, both may create the CA's Secret
            self.assertFalse(self.may("osm-controller", verb, mesh.SYSTEM), verb)


if __name__ == "__main__":
    kubecase.main()
