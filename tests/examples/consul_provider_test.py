#!/usr/bin/python3
"""Services of Consul become lists of the providers' protocol, also after outages, refused tokens, faults of
TLS, answers without rights and an index that goes back. The provider is idle while nothing changes, and has
at most 150 lines.

usage: consul_provider_test.py --bin DIR

Consul is a stand-in that follows its HTTP API (lib/net/consul.py). With OSM_CONSUL, it is the real
program that this variable names (lib/net/real_consul.py).
"""

import datetime
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import unittest

import example
import grpc

from lib.mesh.authority import certify
from lib.mesh.daemon import Controller
from lib.net.consul import PATIENCE, Catalog, Consul
from lib.net.ports import free_ports
from lib.net.real_consul import RealConsul

PROGRAM = os.environ.get("OSM_CONSUL")
TOKEN = "5d4e0b9a-0000-4000-8000-6b2f1c3d7e88"
OTHER_TOKEN = "71c2ee03-0000-4000-8000-9d51ab0e62f4"


class Watcher:
    """A controller's side of the protocol: keeps what it was sent."""

    def __init__(self, channel, version=1):
        from openservicemesh.provider.v1 import provider_pb2 as pb

        self.pb, self.services, self.machines = pb, {}, {}
        self.complete, self.healthy, self.messages = False, None, queue.Queue()
        method = channel.unary_stream(
            "/openservicemesh.provider.v1.EndpointsProvider/Watch",
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )
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
                    (e.address, e.port, e.service_port, e.service_account, e.zone, e.healthy) for e in service.endpoints
                ]
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
        server = self.issue("consul")
        self.consul = (
            RealConsul(pathlib.Path(PROGRAM), self.directory, server, self.ca[0], TOKEN)
            if PROGRAM
            else Consul(server, TOKEN)
        )
        self.addCleanup(self.consul.stop)
        self.catalog = Catalog(self.consul.url, self.ca[0], self.consul.management)
        self.register_books()
        self.catalog.register("rack2", "10.0.0.2", "other", 8080, "other", tags=["not-ours"])
        self.token = self.directory / "token"
        self.token.write_text(TOKEN + "\n")
        sys.path.insert(0, str(example.BIN / "consul_provider"))

    def register_books(self, status="passing"):
        self.catalog.register("rack1", "10.0.0.1", "books", 8080, "books", status, **{"osm-port": "http"})

    def issue(self, name):
        return certify(
            self.directory, name, ["subjectAltName = DNS:localhost, IP:127.0.0.1"], *self.day, signer=self.ca
        )

    def start_provider(self, listen, *more):
        log = open(self.directory / "log", "w")
        self.program = subprocess.Popen(
            [
                "/usr/bin/python3",
                example.BIN / "consul_provider" / "consul_provider.py",
                "--listen",
                listen,
                "--consul",
                self.consul.url,
                "--consul-ca",
                self.ca[0],
                "--token-file",
                self.token,
                "--namespace",
                "shop",
                *more,
            ],
            stderr=log,
        )
        log.close()
        self.addCleanup(self.program.wait)
        self.addCleanup(self.program.terminate)

    def watch(self, target, credentials=None, **more):
        channel = grpc.secure_channel(target, credentials) if credentials else grpc.insecure_channel(target)
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
            self.register_books("critical")
            self.wait_for(watcher.state, ({"books": [self.ONE[:5] + (False,)]}, machines, True, True))
        with self.subTest("a token that is not accepted any more"):
            self.consul.accept(OTHER_TOKEN)
            self.register_books()
            self.wait_for(watcher.state, ({"books": [self.ONE[:5] + (False,)]}, machines, True, False))
            self.token.write_text(OTHER_TOKEN)
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, True))
        with self.subTest("without a token, Consul's answers are empty"):
            self.token.write_text("")
            self.register_books("critical")
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, False))
            self.token.write_text(OTHER_TOKEN)
            self.register_books()
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, True))
        with self.subTest("a token that lost its policy gets empty answers"):
            self.consul.accept(OTHER_TOKEN, readable=False)
            self.register_books("critical")
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, False))
            self.consul.accept(OTHER_TOKEN)
            self.register_books()
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, True), 40)
        with self.subTest("Consul is away"):
            self.consul.stop()
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, False))
            self.consul.start()
            self.wait_for(watcher.state, ({"books": [self.ONE]}, machines, True, True), 40)
        with self.subTest("a service leaves"):
            self.catalog.deregister("rack1")
            self.wait_for(watcher.state, ({}, {}, True, True))
        self.assertNotIn(TOKEN, self.log())

    def follow(self):
        """A watcher that has the lists of setUp()."""
        target = f"unix:{self.directory / 'provider.sock'}"
        self.start_provider(target)
        watcher = self.watch(target)
        self.wait_for(lambda: watcher.state()[0], {"books": [self.ONE]})
        return watcher

    def settle(self, watcher):
        """Until the provider waits for a change: no query is answered for three seconds."""
        before = None
        for _ in range(8):
            now = self.consul.answers()
            if now == before:
                return
            before = now
            self.heartbeats(watcher, 6)
        self.fail(f"the provider asks all the time\n{self.log()}")

    def test_an_index_that_goes_back_is_followed(self):
        def index():
            return self.catalog.ask("GET", "/v1/catalog/services")[1]

        def names():
            return set(watcher.state()[0])

        watcher = self.follow()
        saved, low = self.consul.snapshot(), index()
        for i in range(5):
            self.catalog.register("rack3", "10.0.0.3", f"music{i}", 8081, "music")
        self.wait_for(names, {"books", *(f"music{i}" for i in range(5))})
        high = index()
        self.settle(watcher)
        with self.subTest("a snapshot is restored"):
            self.consul.restore(saved)
            self.assertLess(index(), high)
            self.assertEqual(index(), low)
            self.wait_for(names, {"books"})
            # A query waits for 50 s: a provider with the high index would see nothing before.
            self.catalog.register("rack3", "10.0.0.3", "films", 8081, "films")
            self.wait_for(names, {"books", "films"})
        with self.subTest("Consul starts without content"):
            for i in range(5):
                self.catalog.register("rack3", "10.0.0.3", f"music{i}", 8081, "music")
            self.wait_for(names, {"books", "films", *(f"music{i}" for i in range(5))})
            high = index()
            self.consul.stop()
            self.wait_for(lambda: watcher.state()[3], False)
            self.consul.forget()
            self.consul.start()
            self.wait_for(names, set(), 40)
            self.assertLess(index(), high)
            self.register_books()
            self.wait_for(names, {"books"})

    def test_nothing_is_asked_while_nothing_changes(self):
        watcher = self.follow()
        self.settle(watcher)
        before = self.consul.answers()
        self.heartbeats(watcher, 10)
        self.assertEqual(self.consul.answers(), before)
        self.assertTrue(watcher.state()[3])

    @staticmethod
    def heartbeats(watcher, count):
        for _ in range(count):
            watcher.messages.get(timeout=20)

    @unittest.skipIf(PROGRAM, "Consul answers such clients")
    def test_the_stand_in_refuses_a_client_that_ignores_the_index(self):
        for path in "/v1/catalog/services", "/v1/health/state/any":
            for _ in range(PATIENCE):
                index = self.catalog.ask("GET", path)[1]
            self.assertRaisesRegex(RuntimeError, "429", self.catalog.ask, "GET", path)
            self.assertRaisesRegex(RuntimeError, "429", self.catalog.ask, "GET", path + "?index=0")
            self.assertEqual(self.catalog.ask("GET", f"{path}?index={index}&wait=0s")[1], index)

    @unittest.skipIf(PROGRAM, "Consul cuts no answer")
    def test_an_answer_that_ends_in_the_middle_is_a_failure(self):
        watcher = self.follow()
        self.consul.cut = True
        self.register_books("critical")
        self.wait_for(lambda: watcher.state()[3], False)
        self.assertEqual(watcher.state()[0], {"books": [self.ONE]})
        self.consul.cut = False
        self.wait_for(lambda: watcher.state()[0], {"books": [self.ONE[:5] + (False,)]})
        self.wait_for(lambda: watcher.state()[3], True)

    def test_the_example_has_at_most_150_lines(self):
        text = (example.ROOT / "examples/consul_provider/consul_provider.py").read_text()
        self.assertLessEqual(len(text.splitlines()), 150)

    def test_a_stock_controller_takes_it(self):
        target = f"unix:{self.directory / 'provider.sock'}"
        self.start_provider(target)
        file = self.directory / "providers.yaml"
        file.write_text(json.dumps([{"name": "consul", "address": target, "allow": [{"namespace": "shop"}]}]))
        controller = Controller(
            example.BIN / "osm-controller",
            example.ROOT / "examples/consul_provider/mesh",
            self.directory / "state",
            "--providers",
            file,
        )
        self.addCleanup(controller.stop)
        controller.wait_until_ready()
        self.wait_for(lambda: controller.metric('osm_endpoints_provider_healthy{provider="consul"}'), 1)
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
            self.assertEqual(watcher.messages.get(timeout=20).ByteSize(), watcher.messages.get(timeout=20).ByteSize())

    def test_another_version_is_refused(self):
        target = f"unix:{self.directory / 'provider.sock'}"
        self.start_provider(target)
        watcher = self.watch(target, version=2)
        self.wait_for(watcher.state, grpc.StatusCode.FAILED_PRECONDITION)

    def test_a_port_needs_certificates_of_both_sides(self):
        certificate, key = self.issue("provider")
        [port] = free_ports(1)
        target = f"127.0.0.1:{port}"
        self.start_provider(target, "--certificate", certificate, "--key", key, "--client-ca", self.ca[0])
        mine = self.issue("controller")
        watcher = self.watch(
            target, grpc.ssl_channel_credentials(self.ca[0].read_bytes(), mine[1].read_bytes(), mine[0].read_bytes())
        )
        self.wait_for(lambda: watcher.state()[0], {"books": [self.ONE]})
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(self.ca[0].read_bytes()))
        self.addCleanup(channel.close)
        stranger = Watcher(channel)
        self.wait_for(stranger.state, grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    example.main()
