#!/usr/bin/python3
"""The accounts of osm-controller and osm-injector have the rights that are listed here. Every other
verb on every resource of the API server is tried, and refused."""
import json

from lib.kube import kubecase
from lib.kube import kubeobjects as k8s, mesh
from lib.kube.api import MERGE, ApiError

SYSTEM, ELSEWHERE = mesh.SYSTEM, "elsewhere"
READ = {"list", "watch"}
STANDARD = {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
# {resource: verbs} in every namespace, and on the cluster.
EVERYWHERE = {
    "osm-controller": {
        "namespaces": READ, "services": READ, "serviceaccounts": READ, "pods": READ,
        "endpointslices.discovery.k8s.io": READ,
        "traffictargets.access.smi-spec.io": READ, "httproutegroups.specs.smi-spec.io": READ,
        "tcproutes.specs.smi-spec.io": READ, "trafficsplits.split.smi-spec.io": READ,
        "egresses.policy.openservicemesh.io": READ,
        "ingressbackends.policy.openservicemesh.io": READ,
        "retries.policy.openservicemesh.io": READ,
        "upstreamtrafficsettings.policy.openservicemesh.io": READ,
        "virtualmachines.workload.openservicemesh.io": READ,
        "meshconfigs.config.openservicemesh.io": {"list"},
        "traffictargets/status.access.smi-spec.io": {"patch"},
        "httproutegroups/status.specs.smi-spec.io": {"patch"},
        "tcproutes/status.specs.smi-spec.io": {"patch"},
        "trafficsplits/status.split.smi-spec.io": {"patch"},
        "meshconfigs/status.config.openservicemesh.io": {"patch"},
        "virtualmachines/status.workload.openservicemesh.io": {"patch"},
        "events.events.k8s.io": {"create"},
        "secrets": {"list", "watch", "patch", "delete"},
        "customresourcedefinitions.apiextensions.k8s.io": {"create", *READ},
        "validatingwebhookconfigurations.admissionregistration.k8s.io": {"create", *READ}},
    "osm-injector": {
        "namespaces": READ, "secrets": {"create"},
        "mutatingwebhookconfigurations.admissionregistration.k8s.io": {"create", *READ}}}
# More in osm-system.
AT_HOME = {
    "osm-controller": {
        "meshconfigs.config.openservicemesh.io": {"watch", "create"}, "secrets": {"create"},
        "meshrootcertificates.config.openservicemesh.io": READ,
        "meshrootcertificates/status.config.openservicemesh.io": {"patch"},
        "configmaps": {"create"},
        "leases.coordination.k8s.io": {"create", *READ, "patch", "delete"}},
    "osm-injector": {
        "meshconfigs.config.openservicemesh.io": READ,
        "meshrootcertificates.config.openservicemesh.io": READ, "configmaps": {"create"},
        "leases.coordination.k8s.io": {"create", *READ, "patch", "delete"}}}
# {(resource, namespace, name): verbs} of objects by their names.
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
KEEP_UP = {"get", "patch", "update"}
BY_NAME = {
    "osm-controller": {
        ("meshconfigs.config.openservicemesh.io", SYSTEM, "osm-mesh-config"): {"get", "patch"},
        ("configmaps", SYSTEM, "preset-mesh-config"): {"get"},
        ("configmaps", SYSTEM, "osm-root-rotation"): {"get", "patch"},
        ("secrets", SYSTEM, "osm-ca-bundle"): {"get"},
        ("leases.coordination.k8s.io", SYSTEM, "osm-controller-osm"): {"get", "update"},
        ("validatingwebhookconfigurations.admissionregistration.k8s.io", None,
         "osm-validator-mesh-osm"): KEEP_UP,
        **{(CRDS, None, name): KEEP_UP for name in (
            "egresses.policy.openservicemesh.io", "httproutegroups.specs.smi-spec.io",
            "ingressbackends.policy.openservicemesh.io", "meshconfigs.config.openservicemesh.io",
            "meshrootcertificates.config.openservicemesh.io", "retries.policy.openservicemesh.io",
            "tcproutes.specs.smi-spec.io", "trafficsplits.split.smi-spec.io",
            "traffictargets.access.smi-spec.io",
            "upstreamtrafficsettings.policy.openservicemesh.io",
            "virtualmachines.workload.openservicemesh.io")}},
    "osm-injector": {
        ("secrets", SYSTEM, "osm-ca-bundle"): {"get"},
        ("configmaps", SYSTEM, "osm-root-rotation"): {"get"},
        ("mutatingwebhookconfigurations.admissionregistration.k8s.io", None,
         "osm-webhook-osm"): KEEP_UP}}
# Kubernetes grants every account questions about itself.
EVERYBODY = {"selfsubjectaccessreviews.authorization.k8s.io": {"create"},
             "selfsubjectrulesreviews.authorization.k8s.io": {"create"},
             "selfsubjectreviews.authentication.k8s.io": {"create"}}


class Resource:
    def __init__(self, group_version, listed):
        group, _, version = group_version.rpartition("/")
        self.name = listed["name"] + (f".{group}" if group else "")
        self.namespaced = listed["namespaced"]
        self.base = ("/apis/" if group else "/api/") + group_version
        self.plural, _, self.subresource = listed["name"].partition("/")

    def path(self, ns, name=None):
        parts = [self.base] + (["namespaces", ns] if ns else []) + [self.plural]
        return "/".join(parts + [p for p in (name, name and self.subresource) if p])


class RbacTest(kubecase.KubeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for file in ("namespace.yaml", "controller-rbac.yaml", "injector-rbac.yaml"):
            cls.cluster.kubectl("apply", "-f", mesh.MANIFESTS / file)
        cls.cluster.kubectl("apply", "-f", mesh.ROOT / "libosm/plugins/kubernetes/crds")
        cls.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        cls.api.apply(k8s.namespace(ELSEWHERE))
        cls.resources = list(cls.discover())

    @classmethod
    def discover(cls):
        seen = set()
        groups = ["v1"] + [v["groupVersion"] for g in cls.api.request("GET", "/apis")["groups"]
                           for v in g["versions"]]
        for group_version in groups:
            root = "/api/" if group_version == "v1" else "/apis/"
            for listed in cls.api.request("GET", root + group_version)["resources"]:
                resource = Resource(group_version, listed)
                if resource.name not in seen:
                    seen.add(resource.name)
                    yield resource

    def allowed(self, api, verb, resource, ns, name="some-name"):
        """True if RBAC allows it. Nothing is changed."""
        methods = {"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT",
                   "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}
        whole = verb in ("list", "watch", "deletecollection") or (
            verb == "create" and not resource.subresource)
        path = resource.path(ns, None if whole else name)
        query = {} if methods[verb] == "GET" else {"dryRun": "All"}
        if verb == "watch":
            query = {"watch": "1", "timeoutSeconds": "1", "resourceVersion": "0"}
        if verb == "deletecollection":
            query["labelSelector"] = "none=such"
        try:
            if verb == "watch":  # without waiting for its end
                return self.watch_status(api, path) != 403
            body = None if methods[verb] == "GET" else {}
            api.request(methods[verb], path, body, MERGE if verb == "patch" else
                        "application/json", **query)
        except ApiError as refused:
            return not (refused.code == 403 and f"cannot {verb} " in refused.message)
        return True

    @staticmethod
    def watch_status(api, path):
        connection = api._connect(10)
        try:
            connection.request("GET", path + "?watch=1&timeoutSeconds=1&resourceVersion=0",
                               headers=api._headers("application/json"))
            response = connection.getresponse()
            response.close()
            return response.status
        finally:
            connection.close()

    def granted(self, account):
        """{(verb, resource, namespace)} that get through, of all there are."""
        api = self.cluster.as_account(SYSTEM, account)
        found = set()
        for resource in self.resources:
            verbs = STANDARD - ({"list", "watch", "deletecollection"} if resource.subresource
                                else set())
            for ns in (SYSTEM, ELSEWHERE) if resource.namespaced else (None,):
                found |= {(verb, resource.name, ns) for verb in verbs
                          if self.allowed(api, verb, resource, ns)}
        api.close()
        return found

    def expected(self, account):
        wanted = set()
        for resource in self.resources:
            for ns in (SYSTEM, ELSEWHERE) if resource.namespaced else (None,):
                verbs = (EVERYWHERE[account].get(resource.name, set()) |
                         EVERYBODY.get(resource.name, set()) |
                         (AT_HOME[account].get(resource.name, set()) if ns == SYSTEM else set()))
                wanted |= {(verb, resource.name, ns) for verb in verbs}
        return wanted

    def check(self, account):
        self.assertGreater(len(self.resources), 80)
        self.assertEqual(sorted(map(str, self.expected(account))),
                         sorted(map(str, self.granted(account))))

    def test_the_controller_may_do_what_is_written_and_nothing_else(self):
        self.check("osm-controller")

    def test_the_injector_may_do_what_is_written_and_nothing_else(self):
        self.check("osm-injector")

    def test_grants_by_name_are_for_these_names(self):
        by_name = {r.name: r for r in self.resources}
        for account, grants in BY_NAME.items():
            api = self.cluster.as_account(SYSTEM, account)
            for (name, ns, own), verbs in grants.items():
                with self.subTest(account=account, resource=name, name=own):
                    whole = {"list", "watch", "create", "deletecollection"}
                    general = EVERYWHERE[account].get(name, set()) - whole
                    at_home = AT_HOME[account].get(name, set()) - whole
                    for where in (ns, ELSEWHERE) if ns else (None,):
                        got = {verb for verb in STANDARD - whole
                               if self.allowed(api, verb, by_name[name], where, own)}
                        self.assertEqual(general | (verbs | at_home if where == ns else set()),
                                         got, where)
            api.close()

    def test_no_other_verbs_and_no_paths_are_granted(self):
        for account in EVERYWHERE:
            api, plain = (self.cluster.as_account(SYSTEM, a) for a in (account, "default"))
            review = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1",
                      "spec": {"namespace": SYSTEM}}
            path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
            mine, theirs = (a.request("POST", path, review)["status"] for a in (api, plain))
            verbs = {verb for rule in mine["resourceRules"] for verb in rule["verbs"]}
            self.assertLessEqual(verbs, STANDARD - {"deletecollection"})
            self.assertFalse([r for r in mine["resourceRules"] if "*" in r["resources"]])
            self.assertEqual(*({json.dumps(r, sort_keys=True) for r in s["nonResourceRules"]}
                               for s in (mine, theirs)))
            api.close()
            plain.close()

    def test_the_table_names_only_what_exists(self):
        names = {r.name for r in self.resources}
        for table in (*EVERYWHERE.values(), *AT_HOME.values()):
            self.assertEqual(set(), set(table) - names)


if __name__ == "__main__":
    kubecase.main()
