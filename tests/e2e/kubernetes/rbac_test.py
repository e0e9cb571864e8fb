#!/usr/bin/python3
"""Each verb on each resource, tried as each account of the mesh, is refused unless it is listed; a stolen
token cannot be turned into more rights.
"""

import base64
import json
import subprocess

from lib.kube import kubecase, mesh
from lib.kube import kubeobjects as k8s
from lib.kube.api import MERGE, ApiError
from lib.net.processes import NotYet, wait_for

SYSTEM, ELSEWHERE = mesh.SYSTEM, "elsewhere"
READ = {"list", "watch"}
FOLLOW = {"get", *READ}  # kinds of the mesh: `osm status` and `osm get` ask for one object
STANDARD = {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
# {resource: verbs} in every namespace, and on the cluster.
EVERYWHERE = {
    "osm-controller": {
        "namespaces": FOLLOW,
        "services": FOLLOW,
        "serviceaccounts": FOLLOW,
        "pods": READ,
        "endpointslices.discovery.k8s.io": READ,
        "traffictargets.access.smi-spec.io": FOLLOW,
        "httproutegroups.specs.smi-spec.io": FOLLOW,
        "tcproutes.specs.smi-spec.io": FOLLOW,
        "trafficsplits.split.smi-spec.io": FOLLOW,
        "egresses.policy.openservicemesh.io": FOLLOW,
        "ingressbackends.policy.openservicemesh.io": FOLLOW,
        "retries.policy.openservicemesh.io": FOLLOW,
        "telemetries.policy.openservicemesh.io": FOLLOW,
        "extensionservices.config.openservicemesh.io": FOLLOW,
        "upstreamtrafficsettings.policy.openservicemesh.io": FOLLOW,
        "virtualmachines.workload.openservicemesh.io": FOLLOW,
        "serviceproviders.workload.openservicemesh.io": FOLLOW,
        "azureresources.workload.openservicemesh.io": FOLLOW,
        "dnsresources.workload.openservicemesh.io": FOLLOW,
        "traffictargets/status.access.smi-spec.io": {"patch"},
        "httproutegroups/status.specs.smi-spec.io": {"patch"},
        "tcproutes/status.specs.smi-spec.io": {"patch"},
        "trafficsplits/status.split.smi-spec.io": {"patch"},
        "egresses/status.policy.openservicemesh.io": {"patch"},
        "ingressbackends/status.policy.openservicemesh.io": {"patch"},
        "retries/status.policy.openservicemesh.io": {"patch"},
        "telemetries/status.policy.openservicemesh.io": {"patch"},
        "extensionservices/status.config.openservicemesh.io": {"patch"},
        "upstreamtrafficsettings/status.policy.openservicemesh.io": {"patch"},
        "virtualmachines/status.workload.openservicemesh.io": {"patch"},
        "serviceproviders/status.workload.openservicemesh.io": {"patch"},
        "azureresources/status.workload.openservicemesh.io": {"patch"},
        "dnsresources/status.workload.openservicemesh.io": {"patch"},
        "events.events.k8s.io": {"create"},
        "tokenreviews.authentication.k8s.io": {"create"},
        "secrets": {"list", "watch", "patch", "delete"},
        "customresourcedefinitions.apiextensions.k8s.io": READ,
        "validatingwebhookconfigurations.admissionregistration.k8s.io": READ,
    },
    "osm-injector": {
        "namespaces": FOLLOW,
        "nodes": READ,
        "secrets": {"create"},
        "mutatingwebhookconfigurations.admissionregistration.k8s.io": READ,
    },
}
# More in osm-system.
AT_HOME = {
    "osm-controller": {
        "meshconfigs.config.openservicemesh.io": {*FOLLOW, "create"},
        "secrets": {"create"},
        "meshconfigs/status.config.openservicemesh.io": {"patch"},
        "meshrootcertificates.config.openservicemesh.io": FOLLOW,
        "meshrootcertificates/status.config.openservicemesh.io": {"patch"},
        "denylists.workload.openservicemesh.io": FOLLOW,
        "denylists/status.workload.openservicemesh.io": {"patch"},
        "configmaps": {"create"},
        "leases.coordination.k8s.io": {"create", *READ, "patch", "delete"},
    },
    "osm-injector": {
        "meshconfigs.config.openservicemesh.io": READ,
        "meshrootcertificates.config.openservicemesh.io": READ,
        "denylists.workload.openservicemesh.io": READ,
        "configmaps": {"create"},
        "leases.coordination.k8s.io": {"create", *READ, "patch", "delete"},
    },
}
# {account: {(verb, resource, namespace)}} in another namespace.
ELSE = {"osm-controller": set(), "osm-injector": {("create", "events.events.k8s.io", "default")}}
# {(resource, namespace, name): verbs} of objects by their names.
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
KEEP_UP = {"get", "patch", "update"}
BY_NAME = {
    "osm-controller": {
        ("meshconfigs.config.openservicemesh.io", SYSTEM, "osm-mesh-config"): {"patch"},
        ("configmaps", SYSTEM, "preset-mesh-config"): {"get"},
        ("configmaps", SYSTEM, "osm-root-rotation"): {"get", "patch"},
        ("configmaps", SYSTEM, "osm-last-mesh-config"): {"get", "patch"},
        ("configmaps", SYSTEM, "osm-drained-machines"): {"get", "patch"},
        ("secrets", SYSTEM, "osm-ca-bundle"): {"get"},
        ("leases.coordination.k8s.io", SYSTEM, "osm-controller-osm"): {"get", "update"},
        ("validatingwebhookconfigurations.admissionregistration.k8s.io", None, "libosm-validator-osm"): KEEP_UP,
        **{
            (CRDS, None, name): {"get"}
            for name in (
                "azureresources.workload.openservicemesh.io",
                "denylists.workload.openservicemesh.io",
                "dnsresources.workload.openservicemesh.io",
                "egresses.policy.openservicemesh.io",
                "extensionservices.config.openservicemesh.io",
                "telemetries.policy.openservicemesh.io",
                "httproutegroups.specs.smi-spec.io",
                "ingressbackends.policy.openservicemesh.io",
                "meshconfigs.config.openservicemesh.io",
                "meshrootcertificates.config.openservicemesh.io",
                "retries.policy.openservicemesh.io",
                "tcproutes.specs.smi-spec.io",
                "trafficsplits.split.smi-spec.io",
                "traffictargets.access.smi-spec.io",
                "upstreamtrafficsettings.policy.openservicemesh.io",
                "serviceproviders.workload.openservicemesh.io",
                "virtualmachines.workload.openservicemesh.io",
            )
        },
    },
    "osm-injector": {
        ("secrets", SYSTEM, "osm-ca-bundle"): {"get"},
        ("configmaps", SYSTEM, "osm-root-rotation"): {"get"},
        ("configmaps", SYSTEM, "osm-last-mesh-config"): {"get"},
        ("mutatingwebhookconfigurations.admissionregistration.k8s.io", None, "libosm-webhook-osm"): KEEP_UP,
    },
}
# Kubernetes grants every account questions about itself.
KINDS = ("Namespace", "CustomResourceDefinition", "ServiceAccount")  # and Roles: no programs
EVERYBODY = {
    "selfsubjectaccessreviews.authorization.k8s.io": {"create"},
    "selfsubjectrulesreviews.authorization.k8s.io": {"create"},
    "selfsubjectreviews.authentication.k8s.io": {"create"},
}


def places(resource):
    """Namespaces where its verbs are tried."""
    more = {ns for grants in ELSE.values() for _, name, ns in grants if name == resource.name}
    return (SYSTEM, ELSEWHERE, *more) if resource.namespaced else (None,)


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
        cls.api.apply(*(o for o in mesh.rendered() if o["kind"] in KINDS or "Role" in o["kind"]))
        cls.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        cls.api.apply(k8s.namespace(ELSEWHERE))
        cls.resources = list(cls.discover())

    @classmethod
    def discover(cls):
        seen = set()
        groups = ["v1"] + [v["groupVersion"] for g in cls.api.request("GET", "/apis")["groups"] for v in g["versions"]]
        for group_version in groups:
            root = "/api/" if group_version == "v1" else "/apis/"
            for listed in cls.api.request("GET", root + group_version)["resources"]:
                resource = Resource(group_version, listed)
                if resource.name not in seen:
                    seen.add(resource.name)
                    yield resource

    def allowed(self, api, verb, resource, ns, name="some-name"):
        """True if RBAC allows it. Nothing is changed."""
        methods = {
            "get": "GET",
            "list": "GET",
            "watch": "GET",
            "create": "POST",
            "update": "PUT",
            "patch": "PATCH",
            "delete": "DELETE",
            "deletecollection": "DELETE",
        }
        whole = verb in ("list", "watch", "deletecollection") or (verb == "create" and not resource.subresource)
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
            api.request(methods[verb], path, body, MERGE if verb == "patch" else "application/json", **query)
        except ApiError as refused:
            return not (refused.code == 403 and f"cannot {verb} " in refused.message)
        return True

    @staticmethod
    def watch_status(api, path):
        connection = api._connect(10)
        try:
            connection.request(
                "GET", path + "?watch=1&timeoutSeconds=1&resourceVersion=0", headers=api._headers("application/json")
            )
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
            verbs = STANDARD - ({"list", "watch", "deletecollection"} if resource.subresource else set())
            for ns in places(resource):
                found |= {(verb, resource.name, ns) for verb in verbs if self.allowed(api, verb, resource, ns)}
        api.close()
        return found

    def expected(self, account):
        wanted = set(ELSE[account])
        for resource in self.resources:
            for ns in places(resource):
                verbs = (
                    EVERYWHERE[account].get(resource.name, set())
                    | EVERYBODY.get(resource.name, set())
                    | (AT_HOME[account].get(resource.name, set()) if ns == SYSTEM else set())
                )
                wanted |= {(verb, resource.name, ns) for verb in verbs}
        return wanted

    def check(self, account):
        self.assertGreater(len(self.resources), 80)
        self.assertEqual(sorted(map(str, self.expected(account))), sorted(map(str, self.granted(account))))

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
                        got = {verb for verb in STANDARD - whole if self.allowed(api, verb, by_name[name], where, own)}
                        self.assertEqual(general | (verbs | at_home if where == ns else set()), got, where)
            api.close()

    def test_no_other_verbs_and_no_paths_are_granted(self):
        for account in EVERYWHERE:
            api, plain = (self.cluster.as_account(SYSTEM, a) for a in (account, "default"))
            review = {
                "kind": "SelfSubjectRulesReview",
                "apiVersion": "authorization.k8s.io/v1",
                "spec": {"namespace": SYSTEM},
            }
            path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
            mine, theirs = (a.request("POST", path, review)["status"] for a in (api, plain))
            verbs = {verb for rule in mine["resourceRules"] for verb in rule["verbs"]}
            self.assertLessEqual(verbs, STANDARD - {"deletecollection"})
            self.assertFalse([r for r in mine["resourceRules"] if "*" in r["resources"]])
            self.assertEqual(*({json.dumps(r, sort_keys=True) for r in s["nonResourceRules"]} for s in (mine, theirs)))
            api.close()
            plain.close()

    # -- escalation: what a thief of an account's token would try -------------------------------
    def refused(self, api, method, path, body=None, kind="application/json", **query):
        """The request is refused by RBAC, and would be one that the API server takes."""
        with self.assertRaises(ApiError, msg=f"{method} {path}") as refused:
            api.request(method, path, body, kind, **query)
        self.assertEqual(403, refused.exception.code, refused.exception.message)
        self.assertIn("is forbidden", refused.exception.message)
        if method != "GET" and not path.endswith("/token"):
            query["dryRun"] = "All"
        self.api.request(method, path, body, kind, **query)

    def attacks(self, api, account):
        rbac, hooks = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
        subject = [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}]
        everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]

        def named(name, **more):
            return {"metadata": {"name": name}, **more}

        def role(kind):
            return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "cluster-admin"}

        # More rights for itself: by a binding, by its own roles, by those of Kubernetes.
        for path in (f"{rbac}/clusterrolebindings", f"{rbac}/namespaces/{SYSTEM}/rolebindings"):
            self.refused(api, "POST", path, named("mine", roleRef=role("ClusterRole"), subjects=subject))
        self.refused(api, "PATCH", f"{rbac}/clusterrolebindings/cluster-admin", {"subjects": subject}, MERGE)
        self.refused(api, "POST", f"{rbac}/clusterroles", named("mine", rules=everything))
        for path in (f"{rbac}/clusterroles/{account}-osm", f"{rbac}/namespaces/{SYSTEM}/roles/{account}"):
            self.refused(api, "PATCH", path, {"rules": everything}, MERGE)
        # Somebody else's identity: tokens, pods that run as others, impersonation.
        for ns, other in ((SYSTEM, "default"), ("kube-system", "default")):
            self.refused(
                api,
                "POST",
                f"/api/v1/namespaces/{ns}/serviceaccounts/{other}/token",
                {"spec": {"expirationSeconds": 3600}},
            )
        container = {"name": "mine", "image": "mine"}
        self.refused(
            api,
            "POST",
            f"/api/v1/namespaces/{SYSTEM}/pods",
            named("mine", spec={"containers": [container], "serviceAccountName": "default"}),
        )
        self.refused(
            api,
            "PATCH",
            f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/victim",
            {"spec": {"template": {"spec": {"serviceAccountName": account}}}},
            MERGE,
        )
        self.refused(
            api,
            "POST",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            named(
                "mine",
                spec={
                    "signerName": "kubernetes.io/kube-apiserver-client",
                    "request": self.signing_request(),
                    "usages": ["client auth"],
                },
            ),
        )
        with self.assertRaises(ApiError) as refused:
            self.impersonate(api)
        self.assertIn("cannot impersonate", refused.exception.message)
        # Every request of the API server: a webhook, or a policy, of its own or another's.
        hook = {
            "name": "mine.example.org",
            "clientConfig": {"url": "https://mine.example.org"},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            self.refused(api, "POST", f"{hooks}/{plural}", named("mine", webhooks=[hook]))
            self.refused(api, "PATCH", f"{hooks}/{plural}/anothers", {"webhooks": [hook]}, MERGE)
            self.refused(api, "DELETE", f"{hooks}/{plural}/anothers")
        # Conversion webhooks of CRDs see all objects of a kind.
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for name in ("meshrootcertificates.config.openservicemesh.io", "traffictargets.access.smi-spec.io"):
            self.refused(api, "PATCH", f"{crd}/{name}", {"metadata": {"labels": {"a": "b"}}}, MERGE)
            self.refused(api, "DELETE", f"{crd}/{name}")
        # Keys of others, and the mesh's root of trust.
        for ns in (SYSTEM, ELSEWHERE, "kube-system"):
            self.refused(api, "GET", f"/api/v1/namespaces/{ns}/secrets/theirs")
        self.refused(
            api,
            "POST",
            f"/apis/config.openservicemesh.io/v1alpha2/namespaces/{SYSTEM}/meshrootcertificates",
            {
                "apiVersion": "config.openservicemesh.io/v1alpha2",
                "kind": "MeshRootCertificate",
                "metadata": {"name": "mine"},
                "spec": {
                    "role": "inactive",
                    "provider": {"tresor": {"ca": {"secretRef": {"name": "theirs", "namespace": SYSTEM}}}},
                },
            },
        )
        # Namespaces that join or leave the mesh.
        self.refused(
            api,
            "PATCH",
            f"/api/v1/namespaces/{ELSEWHERE}",
            {"metadata": {"labels": {"openservicemesh.io/monitored-by": "osm"}}},
            MERGE,
        )

    def signing_request(self):
        key = self.rig.directory / "mine.key"
        made = subprocess.run(
            [
                "openssl",
                "req",
                "-new",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-keyout",
                key,
                "-subj",
                "/CN=mine",
            ],
            capture_output=True,
            check=True,
        ).stdout
        return base64.b64encode(made).decode()

    @staticmethod
    def impersonate(api):
        connection = api._connect(10)
        try:
            connection.request(
                "GET",
                "/api/v1/namespaces",
                headers={
                    **api._headers("application/json"),
                    "Impersonate-User": "admin",
                    "Impersonate-Group": "system:masters",
                },
            )
            response = connection.getresponse()
            raw = response.read()
            if response.status >= 400:
                raise ApiError(response.status, json.loads(raw)["message"])
        finally:
            connection.close()

    def test_a_stolen_token_gives_no_more_than_its_account_has(self):
        for ns in (SYSTEM, ELSEWHERE, "kube-system"):
            self.api.apply(
                {"apiVersion": "v1", "kind": "Secret", "data": {}, "metadata": {"name": "theirs", "namespace": ns}}
            )
        self.api.apply(k8s.deployment(SYSTEM, "victim", [k8s.shell_container("app", "sleep 1")], replicas=0))
        for kind in ("Mutating", "Validating"):
            self.api.apply(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": f"{kind}WebhookConfiguration",
                    "metadata": {"name": "anothers"},
                }
            )
        for account in EVERYWHERE:
            with self.subTest(account):
                api = self.cluster.as_account(SYSTEM, account)
                self.attacks(api, account)
                api.close()

    # -- what admission policies limit further -----------------------------------------------------
    def forbidden(self, why, api, method, path, body=None, **query):
        """The request is refused by a policy, with its message."""
        try:
            api.request(method, path, body, MERGE if method == "PATCH" else "application/json", **query)
        except ApiError as refused:
            if refused.code == 403 and why in refused.message:
                return True
            raise NotYet(f"{refused.code} {refused.message}") from refused
        raise NotYet(f"{method} {path} is not refused")

    def test_a_daemon_changes_the_ca_bundle_of_its_webhooks_and_puts_back_what_was_installed(self):
        rendered = [o for o in mesh.rendered() if "AdmissionPolicy" in o["kind"] or "WebhookConfig" in o["kind"]]
        self.api.apply(*rendered)
        ca = base64.b64encode(self.cluster.pki.ca.read_bytes()).decode()
        for account, kind, name in (
            ("osm-injector", "MutatingWebhookConfiguration", "libosm-webhook-osm"),
            ("osm-controller", "ValidatingWebhookConfiguration", "libosm-validator-osm"),
        ):
            self.addCleanup(self.api.delete, kind, None, name)
            path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{name}"
            api = self.cluster.as_account(SYSTEM, account)
            self.addCleanup(api.close)
            whole = self.api.get(kind, None, name)

            def changed(change, whole=whole):
                hooks = json.loads(json.dumps(whole["webhooks"]))
                change(hooks)
                return {"webhooks": hooks}

            everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
            other = {**whole["webhooks"][0], "name": "other.example.org"}
            for attack in (
                changed(lambda hooks: hooks[0].update(clientConfig={"url": "https://mine.example.org"})),
                changed(lambda hooks: hooks[0]["clientConfig"]["service"].update(namespace=ELSEWHERE)),
                changed(lambda hooks: hooks[0].update(rules=[everything])),
                changed(lambda hooks: hooks[0].update(namespaceSelector={})),
                changed(lambda hooks: hooks[-1].update(failurePolicy="Ignore" if len(hooks) == 2 else "Fail")),
                changed(lambda hooks: hooks[0].update(matchConditions=[{"name": "no", "expression": "false"}])),
                changed(lambda hooks: hooks.append(other)),
                changed(lambda hooks: hooks.pop()),
                {"webhooks": []},
            ):
                with self.subTest(name, attack=attack["webhooks"][:1]):
                    wait_for(
                        "the policy refuses it",
                        lambda: self.forbidden("may set the caBundle", api, "PATCH", path, attack, dryRun="All"),
                        30,
                    )
            owner = {"apiVersion": "v1", "kind": "Namespace", "name": "mine", "uid": "mine"}
            wait_for(
                "an owner is refused",
                lambda: self.forbidden(
                    "no owner", api, "PATCH", path, {"metadata": {"ownerReferences": [owner]}}, dryRun="All"
                ),
                30,
            )
            with self.subTest(name, allowed="a caBundle"):
                bundle = changed(lambda hooks: [hook["clientConfig"].update(caBundle=ca) for hook in hooks])
                api.request("PATCH", path, bundle, MERGE)
            with self.subTest(name, allowed="what is installed"):
                self.api.request(
                    "PATCH", path, changed(lambda hooks: (hooks[0].update(namespaceSelector={}), hooks.pop())), MERGE
                )
                api.request("PATCH", path, bundle, MERGE)
                self.assertEqual(bundle["webhooks"], self.api.get(kind, None, name)["webhooks"])

    def test_who_may_view_the_mesh_reaches_the_controllers_ports_and_no_other(self):
        self.api.apply(
            *(o for o in mesh.rendered() if "AdmissionPolicy" in o["kind"]),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "views", "namespace": SYSTEM},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "osm-viewer"},
                "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": ELSEWHERE}],
            },
        )
        api = self.cluster.as_account(ELSEWHERE, "default")
        self.addCleanup(api.close)

        def path(name):
            return f"/api/v1/namespaces/{SYSTEM}/pods/{name}/proxy/"

        for name in ("other:8080", "other", "https:other:9094", "osm-controller-a-b:9090", "osm-injector-a-b:9091"):
            with self.subTest(name):
                wait_for(
                    "the policy refuses it",
                    lambda: self.forbidden("is for the ports 9094 and 9091", api, "GET", path(name)),
                    30,
                )
        for who, name in (
            (api, "https:osm-controller-a-b:9094"),
            (api, "osm-controller-a-b:9091"),
            (self.api, "other:8080"),  # a cluster administrator
        ):
            with self.subTest(name, allowed=True), self.assertRaises(ApiError) as missing:
                who.request("GET", path(name))
            self.assertEqual(404, missing.exception.code, missing.exception.message)  # there are no pods

    def test_the_table_names_only_what_exists(self):
        names = {r.name for r in self.resources}
        for table in (*EVERYWHERE.values(), *AT_HOME.values()):
            self.assertEqual(set(), set(table) - names)


if __name__ == "__main__":
    kubecase.main()
