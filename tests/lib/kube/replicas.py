"""`ReplicaCase`: questions to each replica of osm-controller, and streams with a proxy's key."""

import re

from lib.kube import kubecase, mesh
from lib.kube.api import decode
from lib.mesh.xds_client import CLUSTER, AdsStream
from lib.net import http2
from lib.net.processes import NotYet

HTTP, ADS = 9091, 15128


class ReplicaCase(kubecase.MeshCase):
    @classmethod
    def ask(cls, pod, path):
        """(status, body) of a replica's open port."""
        return cls.cluster.namespace.http(pod["status"]["podIP"], HTTP, "GET", path)

    @classmethod
    def metrics_of(cls, pod):
        """{series: value}"""
        status, body = cls.ask(pod, "/metrics")
        assert status == 200, body
        return {
            series: float(value)
            for series, _, value in (line.rpartition(" ") for line in body.splitlines() if not line.startswith("#"))
        }

    @classmethod
    def proxies_of(cls, pod):
        """Number of proxies that are connected to a replica."""
        return sum(
            value for series, value in cls.metrics_of(pod).items() if series.startswith("osm_proxy_connect_count")
        )

    @staticmethod
    def told_by(pod):
        """(replica's name, generation, hash) of what an Envoy was sent last, as it knows it."""
        told = pod.admin("/stats?filter=control_plane.identifier")[1]
        found = re.search(r'"(\S+)/(\d+)/([0-9a-f]{16})"', told)
        if not found:
            raise NotYet(told)
        return found.groups()

    def replica_of(self, pod):
        """(pod of the replica that configures a proxy, generation, hash), as its Envoy knows it."""
        replica, generation, mesh_hash = self.told_by(pod)
        return (
            next(
                p for p in self.pods(mesh.SYSTEM, "osm-controller") if replica.startswith(p["metadata"]["name"] + "-")
            ),
            generation,
            mesh_hash,
        )

    def open_stream(self, pod, address, delta=False):
        """An ADS stream to a replica, or to the Service of all, from the node, with the key of a
        pod's proxy. The proxy's own stream, if it is at the same replica, ends."""
        secret = next(
            v["secret"]["secretName"]
            for v in pod.run.obj["spec"]["volumes"]
            if v["name"] == "envoy-bootstrap-config-volume"
        )
        data = self.api.get("Secret", pod.run.ns, secret)["data"]
        files = []
        for name in ("sds_cert.pem", "sds_key.pem"):
            files.append(self.rig.directory / f"stolen.{pod.run.name}.{name}")
            files[-1].write_bytes(decode(data[name]))
        plain = self.cluster.namespace.connect(address, ADS, timeout=10)
        stream = AdsStream(http2.Connection(http2.client_context(identity=files).wrap_socket(plain)), delta)
        self.addCleanup(stream.close)
        return stream

    def use_key_of(self, pod, replica):
        """The same, to a replica, when it has asked for clusters."""
        stream = self.open_stream(pod, replica["status"]["podIP"])
        stream.ask(CLUSTER)
        return stream
