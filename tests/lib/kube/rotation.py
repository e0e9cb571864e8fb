"""Progress of a root rotation in the record, Secrets, proxies and webhooks."""

import base64
import json
import re
import subprocess

from lib.kube import kubeobjects as k8s
from lib.kube import mesh
from lib.kube.api import ApiError, decode
from lib.kube.under_load import UnderLoad
from lib.mesh import meshcase
from lib.net.processes import NotYet, wait_for

DOCUMENT = mesh.ROOT / "docs/rotate-root.md"
CERTIFICATE, KEY, BUNDLE = "sds_cert.pem", "sds_key.pem", "cacert.pem"
SECRET = "envoy-bootstrap-config-"
VOLUME = "envoy-bootstrap-config-volume"
RENEW_AFTER = "openservicemesh.io/renew-certificate-after"
IDLE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


def documented_commands(heading="Rotate on Kubernetes", document=DOCUMENT):
    """Commands of a section of a runbook. Those of rotations on Kubernetes begin with a grant of
    the new root's Secret, and a declaration of the root."""
    section = re.search(rf"^##+ {heading}\n(.*?)(?=^##+ |\Z)", document.read_text(), re.M | re.S).group(1)
    return re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)


def root(name, provider, role="active"):
    return {
        "apiVersion": "config.openservicemesh.io/v1alpha2",
        "kind": "MeshRootCertificate",
        "metadata": {"name": name, "namespace": mesh.SYSTEM},
        "spec": {"role": role, "provider": provider},
    }


def openssl(*arguments, text):
    ran = subprocess.run(["openssl", *map(str, arguments)], input=text, capture_output=True, text=True)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def serial_of(pem):
    """Serial number of the first certificate, as Envoy writes it."""
    told = openssl("x509", "-noout", "-serial", text=pem)
    return told.removeprefix("serial=").lower().lstrip("0")


def certificates_in(pem):
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.S)


class RotationCase(UnderLoad):
    """The bookstore under load, and a pod that nobody calls: `quiet`, in bookbuyer's account."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.quiet = cls.start_idle_pod("quiet")

    @classmethod
    def start_idle_pod(cls, name):
        container = k8s.shell_container("app", IDLE)
        cls.api.apply(k8s.deployment("bookbuyer", name, [container], account="bookbuyer"))
        cls.wait_until_available("bookbuyer", name)
        return cls.pod_of("bookbuyer", name)

    def grant_secret(self, name):
        """Lets both daemons read a Secret, as the page says."""
        commands = documented_commands()[0]
        self.shell(commands.replace("mesh-2027-ca", name).replace("mesh-2027", name))

    def osm(self, *arguments):
        """Answer of `osm` to an administrator's question, from outside of the cluster."""
        told = self.cluster.run(meshcase._programs.osm, *arguments, "-o", "json")
        if told.returncode != 0:
            raise NotYet(told.stdout + told.stderr)
        return json.loads(told.stdout)

    # -- roots ----------------------------------------------------------------------------------
    def record(self):
        """{root: state} that all daemons act on."""
        found = self.api.get("ConfigMap", mesh.SYSTEM, "osm-root-rotation")
        return {r["name"]: r["state"] for r in json.loads(found["data"]["record"])["roots"]}

    def wait_for_states(self, timeout=60, **states):
        """`own` stands for the CA of the daemons' flags, and an underscore for a hyphen."""
        wanted = {{"own": "(own)"}.get(name, name.replace("_", "-")): state for name, state in states.items()}

        def reached():
            seen = self.record()
            if any(seen.get(name, "inactive") != state for name, state in wanted.items()):
                raise NotYet(f"{seen}: {self.waiting_for()}")
            return True

        wait_for(f"the roots to be {wanted}", reached, timeout, interval=0.5)

    def roots(self):
        return {r["name"]: r for r in self.osm("certificate", "status")["roots"]}

    def waiting_for(self):
        try:
            return {name: r["waiting_for"] for name, r in self.roots().items() if r["waiting_for"]}
        except NotYet as unknown:
            return repr(unknown)

    def holder(self):
        return self.api.get("Lease", mesh.SYSTEM, "osm-controller-osm")["spec"]["holderIdentity"]

    def leader(self):
        """The pod that does what one replica at a time does."""
        holder = self.holder()
        for run in self.agent.pods(mesh.SYSTEM, "osm-controller"):
            if holder.startswith(run.name):
                return run
        raise NotYet(f"{holder} holds the Lease, and is gone")

    # -- certificates ---------------------------------------------------------------------------
    def files_of(self, pod):
        """{file: text} of a pod's bootstrap Secret."""
        name = self.secret_of(pod)
        data = self.api.get("Secret", pod.run.ns, name)["data"]
        return {file: decode(text).decode() for file, text in data.items()}

    @staticmethod
    def secret_of(pod):
        return next(v["secret"]["secretName"] for v in pod.run.obj["spec"]["volumes"] if v["name"] == VOLUME)

    def root_in(self, secret):
        data = self.api.get("Secret", mesh.SYSTEM, secret)["data"]
        return decode(data["ca.crt"]).decode()

    def signed_by(self, pem, ca):
        """True if the first certificate of `pem` is below the root `ca`."""
        file = self.rig.directory / "root.pem"
        file.write_text(ca)
        chain = self.rig.directory / "chain.pem"
        chain.write_text(pem)
        return bool(openssl("verify", "-purpose", "any", "-CAfile", file, "-untrusted", chain, text=pem))

    def in_use(self, pod):
        """(serial numbers of chains, of what is trusted) in an Envoy."""
        known = json.loads(pod.admin("/certs")[1])["certificates"]

        def serials(kind):
            return {c["serial_number"].lower().lstrip("0") for group in known for c in group.get(kind, [])}

        return serials("cert_chain"), serials("ca_cert")

    def live_proxies(self):
        """The sidecars that run; AssertionError when there are none, so that a loop over them
        proves something."""
        live = [p for run, p in dict(self.proxies).items() if run.deletion is None]
        self.assertTrue(live, "no sidecar runs")
        return live

    def wait_until_taken_up(self, ca, but=(), timeout=60):
        """Until each Envoy shows the certificate of its Secret, and that one is below `ca`."""

        def same():
            for pod in self.live_proxies():
                if pod.name in but:
                    continue
                certificate = self.files_of(pod)[CERTIFICATE]
                if not self.signed_by(certificate, ca):
                    raise NotYet(f"{pod.name}: the Secret is of another root")
                if serial_of(certificate) not in self.in_use(pod)[0]:
                    raise NotYet(f"{pod.name}: Envoy has another certificate")
            return True

        wait_for("each Envoy has a proxy certificate of the new root", same, timeout, interval=1, retry=(ApiError,))

    def envoys(self):
        """{pod: (process, restarts)} of the sidecars that run."""
        return {
            p.name: (c.process.pid, c.restarts)
            for p in self.live_proxies()
            for c in p.run.init_all + p.run.containers
            if c.name == "envoy"
        }

    def trusted_by_the_api_server(self):
        """The CA bundles of the mesh's webhooks."""
        hooks = (
            self.api.get("MutatingWebhookConfiguration", None, "libosm-webhook-osm"),
            self.api.get("ValidatingWebhookConfiguration", None, "libosm-validator-osm"),
        )
        return {
            base64.b64decode(hook["clientConfig"]["caBundle"]).decode().strip()
            for configuration in hooks
            for hook in configuration["webhooks"]
        }

    def wait_until_webhooks_trust(self, ca):
        def same():
            seen = self.trusted_by_the_api_server()
            if seen != {ca.strip()}:
                raise NotYet(seen)
            return True

        wait_for("the API server trusts the webhooks by the new root only", same, 30)

    def check_all_is_of(self, ca):
        """No trace of another root: in proxies, in webhooks, in what is made from now on."""
        self.wait_until_webhooks_trust(ca)
        expected = {serial_of(ca)}

        def forgotten():
            for pod in self.live_proxies():
                if self.in_use(pod)[1] != expected:
                    raise NotYet(f"{pod.name} trusts {self.in_use(pod)[1]}, not {expected}")
            return True

        wait_for("every proxy trusts the new root only", forgotten, 60, interval=1, retry=(ApiError,))
