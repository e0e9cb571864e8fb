"""A client of a Kubernetes API server over kept connections: get, list, server-side apply, patch, delete,
watch and `wait_for`.
"""

import base64
import http.client
import json
import pathlib
import socket
import ssl
import threading
import time
import urllib.parse

from lib.net.processes import NotYet, wait_for

# Place of each kind: (group and version, plural, namespaced).
KINDS = {
    "Namespace": ("v1", "namespaces", False),
    "Node": ("v1", "nodes", False),
    "Pod": ("v1", "pods", True),
    "Service": ("v1", "services", True),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "Secret": ("v1", "secrets", True),
    "ConfigMap": ("v1", "configmaps", True),
    "Endpoints": ("v1", "endpoints", True),
    "Event": ("v1", "events", True),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices", True),
    "Deployment": ("apps/v1", "deployments", True),
    "ReplicaSet": ("apps/v1", "replicasets", True),
    "StatefulSet": ("apps/v1", "statefulsets", True),
    "DaemonSet": ("apps/v1", "daemonsets", True),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets", True),
    "Job": ("batch/v1", "jobs", True),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", False),
    "ValidatingAdmissionPolicy": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", False),
    "TrafficTarget": ("access.smi-spec.io/v1alpha3", "traffictargets", True),
    "HTTPRouteGroup": ("specs.smi-spec.io/v1alpha4", "httproutegroups", True),
    "TCPRoute": ("specs.smi-spec.io/v1alpha4", "tcproutes", True),
    "TrafficSplit": ("split.smi-spec.io/v1alpha2", "trafficsplits", True),
    "MeshConfig": ("config.openservicemesh.io/v1alpha2", "meshconfigs", True),
    "MeshRootCertificate": ("config.openservicemesh.io/v1alpha2", "meshrootcertificates", True),
    "VirtualMachine": ("workload.openservicemesh.io/v1alpha1", "virtualmachines", True),
    "ServiceProvider": ("workload.openservicemesh.io/v1alpha1", "serviceproviders", True),
    "AzureResource": ("workload.openservicemesh.io/v1alpha1", "azureresources", True),
    "DNSResource": ("workload.openservicemesh.io/v1alpha1", "dnsresources", True),
    "Denylist": ("workload.openservicemesh.io/v1alpha1", "denylists", True),
    "CertificateRequest": ("cert-manager.io/v1", "certificaterequests", True),
    "Issuer": ("cert-manager.io/v1", "issuers", True),
    "ClusterIssuer": ("cert-manager.io/v1", "clusterissuers", False),
    "Egress": ("policy.openservicemesh.io/v1alpha1", "egresses", True),
    "IngressBackend": ("policy.openservicemesh.io/v1alpha1", "ingressbackends", True),
    "Telemetry": ("policy.openservicemesh.io/v1alpha1", "telemetries", True),
    "ExtensionService": ("config.openservicemesh.io/v1alpha2", "extensionservices", True),
    "Retry": ("policy.openservicemesh.io/v1alpha1", "retries", True),
    "UpstreamTrafficSetting": ("policy.openservicemesh.io/v1alpha1", "upstreamtrafficsettings", True),
}
SSA = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class ApiError(RuntimeError):
    """The API server's error."""

    def __init__(self, code, message, reason=""):
        super().__init__(f"{code} {reason}: {message}")
        self.code, self.reason, self.message = code, reason, message


def path_of(kind, ns=None, name=None, subresource=None):
    version, plural, namespaced = KINDS[kind]
    parts = ["api" if version == "v1" else "apis", version]
    if namespaced and ns:
        parts += ["namespaces", ns]
    parts.append(plural)
    parts += [p for p in (name, subresource) if p]
    return "/" + "/".join(parts)


class Credentials:
    """Credentials of a client: a certificate (files), a token, or none."""

    def __init__(self, certificate=None, key=None, token=None):
        self.certificate, self.key, self.token = certificate, key, token


class Api:
    """One user's view of the API server at `address`:`port` inside of `namespace`."""

    def __init__(self, namespace, address, port, ca, credentials):
        self.namespace, self.address, self.port, self.ca = namespace, address, port, ca
        self.credentials = credentials
        self.context = ssl.create_default_context(cafile=str(ca))
        if credentials.certificate:
            self.context.load_cert_chain(credentials.certificate, credentials.key)
        self._local = threading.local()

    def close(self):
        """The connection that was kept for more requests of this thread."""
        if getattr(self._local, "connection", None):
            self._local.connection.close()
            self._local.connection = None

    # -- requests -------------------------------------------------------------------------------
    def _connect(self, timeout):
        connection = http.client.HTTPSConnection(self.address, self.port, timeout=timeout)
        raw = self.namespace.connect(self.address, self.port, timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock = self.context.wrap_socket(raw, server_hostname=self.address)
        return connection

    def _headers(self, kind):
        headers = {"Accept": "application/json", "Content-Type": kind}
        if self.credentials.token:
            headers["Authorization"] = f"Bearer {self.credentials.token}"
        return headers

    def request(self, method, path, body=None, kind="application/json", timeout=15, **query):
        """The answer's object. ApiError for a refusal, OSError when there is no answer."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        text = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
        for attempt in (1, 2):
            connection, kept = getattr(self._local, "connection", None), True
            if connection is None:
                connection, kept = self._connect(timeout), False
            try:
                connection.sock.settimeout(timeout)
                connection.request(method, path, body=text, headers=self._headers(kind))
                response = connection.getresponse()
                raw = response.read()
                break
            except (OSError, http.client.HTTPException) as failed:
                connection.close()
                self._local.connection = None
                # The server may close a kept connection at any time; then nothing was done.
                if not (
                    kept
                    and attempt == 1
                    and isinstance(failed, (ConnectionError, http.client.RemoteDisconnected, ssl.SSLEOFError))
                ):
                    if isinstance(failed, (http.client.HTTPException, ssl.SSLEOFError)):
                        raise ConnectionError(repr(failed)) from failed
                    raise
        self._local.connection = connection
        if response.will_close:
            connection.close()
            self._local.connection = None
        if response.status >= 400:
            raise _error(response.status, raw)
        return json.loads(raw) if raw[:1] in (b"{", b"[") else raw.decode()

    def get(self, kind, ns, name):
        return self.request("GET", path_of(kind, ns, name))

    def find(self, kind, ns, name):
        """The object, or None."""
        try:
            return self.get(kind, ns, name)
        except ApiError as failed:
            if failed.code == 404:
                return None
            raise

    def list(self, kind, ns=None, **query):
        return self.request("GET", path_of(kind, ns), **query)["items"]

    def create(self, obj, **query):
        return self.request("POST", path_of(obj["kind"], obj["metadata"].get("namespace")), obj, **query)

    def apply(self, *objects, manager="e2e"):
        """Server-side apply; the objects as they are then."""
        return [
            self.request(
                "PATCH",
                path_of(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]),
                o,
                SSA,
                fieldManager=manager,
                force="true",
            )
            for o in objects
        ]

    def patch(self, kind, ns, name, patch, subresource=None):
        how = JSON_PATCH if isinstance(patch, list) else MERGE
        return self.request("PATCH", path_of(kind, ns, name, subresource), patch, how)

    def delete(self, kind, ns, name, missing_ok=True, **options):
        try:
            return self.request(
                "DELETE", path_of(kind, ns, name), {"kind": "DeleteOptions", "apiVersion": "v1", **options}
            )
        except ApiError as failed:
            if failed.code != 404 or not missing_ok:
                raise
            return None

    def token_of(self, ns, account, seconds=3600, audience=None):
        """A token of a ServiceAccount, as a pod of it would get one; None: for the API server."""
        answer = self.request(
            "POST",
            path_of("ServiceAccount", ns, account, "token"),
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds, "audiences": audience and [audience]},
            },
        )
        return answer["status"]["token"]

    # -- watches --------------------------------------------------------------------------------
    def watch(self, kind, version, ns=None, timeout=300, stop=None, **query):
        """Yields (type, object) from `version` on, until the server ends it or `stop` is set."""
        query.update(watch="1", resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds=timeout)
        connection, response = self._connect(10), None
        try:
            connection.request(
                "GET",
                path_of(kind, ns) + "?" + urllib.parse.urlencode(query),
                headers=self._headers("application/json"),
            )
            response = connection.getresponse()
            if response.status != 200:
                raise _error(response.status, response.read())
            connection.sock.settimeout(90)  # bookmarks come every minute
            if stop is not None:
                stop.closes(connection)
            while line := response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":  # a Status in place of an object
                    raise ApiError(event["object"].get("code", 0), event["object"].get("message"))
                yield event["type"], event["object"]
        finally:
            if response is not None:
                response.close()
            connection.close()

    # -- waiting --------------------------------------------------------------------------------
    def wait_for(self, what, kind, ns, name, condition, timeout=30):
        """The object, as soon as condition(object) is true; a failure shows its status."""
        seen = {}

        def met():
            seen["object"] = self.find(kind, ns, name)
            if seen["object"] is None:
                raise NotYet("it is not there")
            if not condition(seen["object"]):
                raise NotYet(json.dumps(seen["object"].get("status", {}))[:1500])
            return seen["object"]

        # Fields of a status come one after another.
        return wait_for(f"{kind} {ns or ''}/{name} {what}", met, timeout, interval=0.05, retry=(KeyError,))

    def wait_until_gone(self, kind, ns, name, timeout=30):
        wait_for(f"{kind} {ns or ''}/{name} is gone", lambda: self.find(kind, ns, name) is None, timeout, interval=0.05)


def _error(status, raw):
    try:
        answer = json.loads(raw)
        return ApiError(status, answer.get("message", ""), answer.get("reason", ""))
    except ValueError:
        return ApiError(status, raw.decode(errors="replace")[:500])


class Stop:
    """Ends watches at once: closing a connection unblocks whoever reads it."""

    def __init__(self):
        self.event = threading.Event()
        self._lock, self._connections = threading.Lock(), []

    def closes(self, connection):
        with self._lock:
            self._connections = [c for c in self._connections if c.sock is not None]
            self._connections.append(connection)
        if self.event.is_set():
            _shut(connection)

    def set(self):
        self.event.set()
        with self._lock:
            for connection in self._connections:
                _shut(connection)


def _shut(connection):
    try:
        connection.sock.shutdown(socket.SHUT_RDWR)
    except (OSError, AttributeError):
        pass


class Informer:
    """A copy of all objects of a kind, kept by list and watch in a thread of its own."""

    def __init__(self, api, kind, stop, on_change=None):
        self.api, self.kind, self.stop = api, kind, stop
        self.on_change = on_change or (lambda event, obj: None)
        self._lock, self._objects = threading.Lock(), {}
        self.synced = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"informer {kind}", daemon=True)
        self.thread.start()

    def get(self, ns, name):
        with self._lock:
            return self._objects.get((ns, name))

    def all(self):
        with self._lock:
            return list(self._objects.values())

    def _take(self, event, obj):
        key = obj["metadata"].get("namespace"), obj["metadata"]["name"]
        with self._lock:
            if event == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = obj
        self.on_change(event, obj)

    def _list(self):
        answer = self.api.request("GET", path_of(self.kind))
        version, plural, _ = KINDS[self.kind]
        fresh = {(o["metadata"].get("namespace"), o["metadata"]["name"]): o for o in answer["items"]}
        with self._lock:
            gone = [o for key, o in self._objects.items() if key not in fresh]
        for obj in gone:
            self._take("DELETED", obj)
        for obj in fresh.values():
            obj.setdefault("kind", self.kind)
            self._take("MODIFIED", obj)
        self.synced.set()
        return answer["metadata"]["resourceVersion"]

    def _run(self):
        version = None
        while not self.stop.event.is_set():
            try:
                version = version or self._list()
                self.api.close()
                for event, obj in self.api.watch(self.kind, version, stop=self.stop):
                    version = obj["metadata"]["resourceVersion"]
                    if event != "BOOKMARK":
                        self._take(event, obj)
            except (ApiError, OSError, ValueError, http.client.HTTPException):
                version = None  # too old, or the API server is away: from the beginning
                self.stop.event.wait(0.2)
        self.api.close()


def decode(value):
    return base64.b64decode(value or "")


def write_kubeconfig(path, server, ca, credentials):
    """A kubeconfig file, as JSON, which is YAML. It is whole without the file `ca`, as those of other clusters are."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(pathlib.Path(ca).read_bytes()).decode()}
    user = {}
    if credentials.token:
        user["token"] = credentials.token
    if credentials.certificate:
        user["client-certificate"] = str(credentials.certificate)
        user["client-key"] = str(credentials.key)
    path = pathlib.Path(path)
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "e2e",
                "clusters": [{"name": "e2e", "cluster": cluster}],
                "users": [{"name": "e2e", "user": user}],
                "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            },
            indent=1,
        )
    )
    path.chmod(0o600)
    return path


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def now_micro():
    moment = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1e6):06d}Z"
