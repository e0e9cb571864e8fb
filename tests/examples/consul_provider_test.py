#!/usr/bin/python3
"""examples/consul_provider: services of Consul become lists of the providers' protocol.

usage: consul_provider_test.py --bin DIR

Consul is a stand-in that follows its HTTP API (lib/net/consul.py).
"""
import datetime
import json
import queue
import socket
import subprocess
import sys
import threading

import example
import grpc

from lib.mesh.authority import certify
from lib.mesh.daemon import Controller
from lib.net.consul import Catalog, Consul

TOKEN = "5d4e0b9a-0000-4000-8000-6b2f1c3d7e88"


class Watcher:
    """A controller's side of the protocol: keeps what it was sent."""

    def __init__(self, channel, version=1):
        from openservicemesh.provider.v1 import provider_pb2 as pb
        self.pb, self.services, self.machines = pb, {}, {}
        self.complete, self.healthy, self.messages = False, None, queue.Queue()
        method = channel.unary_stream(
            "/openservicemesh.provider.v1.EndpointsProvider/Watch",
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString)
        self.call = method(pb.WatchRequest(version=version, heartbeat_seconds=1), timeout=60)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for message in self.call:
                self.messages.put(message)
        except grpc.RpcError:
            pass
        self.messages.put(None)

    def state(self):
        """(services, machines, complete, healthy) after everything that has come."""
        while not self.messages.empty():
            message = self.messages.get()
            if message is None:
                return self.call.code()
            for removed in message.removed_services:
                self.services.pop(removed.name, None)
            for removed in message.removed_workloads:
                self.machines.pop(removed.name, None)
            for service in message.services:
                self.services[service.name] = [
                    (e.address, e.port, e.service_port, e.service_account, e.zone, e.healthy)
                    for e in service.endpoints]
            for machine in message.workloads:
                self.machines[machine.name] = machine.address, machine.service_account
            self.complete |= message.complete
            if message.health:
                self.healthy = message.health == self.pb.HEALTH_HEALTHY
        return self.services, self.machines, self.complete, self.healthy


class ConsulProvider(example.ExampleCase):
    def setUp(self):
        now = datetime.datetime.now(datetime.timezone.utc)
        self.day = now - datetime.timedelta(hours=1), now + datetime.timedelta(days=1)
        self.ca = certify(self.directory, "ca", ["basicConstraints = critical, CA:TRUE"], *self.day)
        self.consul = Consul(self.issue("consul"), TOKEN)
        self.addCleanup(self.consul.stop)
        self.catalog = Catalog(self.consul.url, self.ca[0], TOKEN)
        self.catalog.register("rack1", "10.0.0.1", "books", 8080, "books", **{"osm-port": "http"})
        self.catalog.register("rack2", "10.0.0.2", "other", 8080, "other", tags=["not-ours"])
        self.token = self.directory / "token"
        self.token.write_text(TOKEN + "\n")
        sys.path.insert(0, str(example.BIN / "consul_provider"))

    def issue(self, name):
        return certify(self.directory, name, ["subjectAltName = DNS:localhost, IP:127.0.0.1"],
                       *self.day, signer=self.ca)

    def start_provider(self, listen, *more):
        log = open(self.directory / "log", "w")
        self.program = subprocess.Popen(
            ["/usr/bin/python3", example.BIN / "consul_provider" / "consul_provider.py",
             "--listen", listen, "--consul", self.consul.url, "--consul-ca", self.ca[0],
             "--token-file", self.token, "--namespace", "shop", *more], stderr=log)
        log.close()
        self.addCleanup(self.program.wait)
        self.addCleanup(self.program.terminate)

    def watch(self, target, credentials=None, **more):
        channel = (grpc.secure_channel(target, credentials) if credentials
                   else grpc.insecure_channel(target))
        self.addCleanup(channel.close)
        grpc.channel_ready_future(channel).result(timeout=20)
        return Watcher(channel, **more)

    ONE = ("10.0.0.1", 8080, "http", "books", "a", True)

    def test_lists_follow_the_catalog_the_checks_and_outages(self):
        target = f"unix:{self.directory / 'provider.sock'}"
        self.start_provider(target)
        watcher = self.watch(target)
        machines = {"rack1": ("10.0.0.1", "books")}
        self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, True))
        with self.subTest("a check fails"):
            self.catalog.register("rack1", "10.0.0.1", "books", 8080, "books", "critical",
                                  **{"osm-port": "http"})
            self.wait_for(watcher.state,
                          ({"books": [self.ONE[:5] + (False,)]}, machines, True, True))
        with self.subTest("a token that is not accepted any more"):
            self.consul.token = "another"
            self.catalog.token = "another"
            self.catalog.register("rack1", "10.0.0.1", "books", 8080, "books",
                                  **{"osm-port": "http"})
            self.wait_for(watcher.state,
                          ({"books": [self.ONE[:5] + (False,)]}, machines, True, False))
            self.token.write_text("another")
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, True))
        with self.subTest("Consul is away"):
            self.consul.stop()
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, False))
            self.consul.start()
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, True), 40)
        with self.subTest("a service leaves"):
            self.catalog.deregister("rack1")
            self.wait_for(watcher.state, ({}, {}, True, True))
        self.assertNotIn(TOKEN, self.log())

    def test_a_stock_controller_takes_it(self):
        target = f"unix:{self.directory / 'provider.sock'}"
        self.start_provider(target)
        file = self.directory / "providers.yaml"
        file.write_text(json.dumps([{"name": "consul", "address": target,
                                     "allow": [{"namespace": "shop"}]}]))
        controller = Controller(
            example.BIN / "osm-controller", example.ROOT / "examples/consul_provider/mesh",
            self.directory / "state", "--providers", file)
        self.addCleanup(controller.stop)
        controller.wait_until_ready()
        self.wait_for(lambda: controller.metric('osm_endpoints_provider_healthy{provider="consul"}'),
                      1)
        self.wait_for(lambda: controller.metric("osm_mesh_workloads"), 1)
        self.assertEqual(controller.admin("/v1/problems")[1]["problems"], [])
        subject = controller.admin("/v1/vm/subject?name=rack1&namespace=shop")
        self.assertEqual(subject[0], 200, subject)
        self.assertIn("/shop/books", subject[1]["spiffe_id"])

    def test_heartbeats_come_without_a_change(self):
        target = f"unix:{self.directory / 'provider.sock'}"
        self.start_provider(target)
        watcher = self.watch(target)
        self.wait_for(lambda: watcher.state()[2], True)
        for _ in range(3):
            self.assertEqual(watcher.messages.get(timeout=3).ByteSize(),
                             watcher.messages.get(timeout=3).ByteSize())

    def test_another_version_is_refused(self):
        target = f"unix:{self.directory / 'provider.sock'}"
        self.start_provider(target)
        watcher = self.watch(target, version=2)
        self.wait_for(watcher.state, grpc.StatusCode.FAILED_PRECONDITION)

    def test_a_port_needs_certificates_of_both_sides(self):
        certificate, key = self.issue("provider")
        target = f"127.0.0.1:{self.free_port()}"
        self.start_provider(target, "--certificate", certificate, "--key", key, "--client-ca",
                            self.ca[0])
        mine = self.issue("controller")
        watcher = self.watch(target, grpc.ssl_channel_credentials(
            self.ca[0].read_bytes(), mine[1].read_bytes(), mine[0].read_bytes()))
        self.wait_for(lambda: watcher.state()[0], {"books": [self.ONE]})
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(self.ca[0].read_bytes()))
        self.addCleanup(channel.close)
        stranger = Watcher(channel)
        self.wait_for(stranger.state, grpc.StatusCode.UNAVAILABLE)

    @staticmethod
    def free_port():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]


if __name__ == "__main__":
    example.main()
