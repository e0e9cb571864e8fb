#!/usr/bin/python3
"""Services and machines of a Consul, for osm-controller --providers (README.md)."""

import argparse
import concurrent.futures
import json
import logging
import os
import pathlib
import ssl
import threading
import time
import urllib.parse
import urllib.request

import grpc
from openservicemesh.provider.v1 import provider_pb2 as pb


class Consul:
    """Consul's HTTP API: blocking queries, over TLS, with a token."""

    def __init__(self, options):
        self.url, self.token_file = options.consul.rstrip("/"), options.token_file
        self.tls = ssl.create_default_context(cafile=options.consul_ca)

    def get(self, path, index=0):
        """(answer, index). With an index it returns when the answer is another, or in time."""
        request = urllib.request.Request(f"{self.url}{path}?index={index}&wait=50s")
        if self.token_file:  # read each time: it may be replaced
            if not (token := pathlib.Path(self.token_file).read_text(encoding="utf-8").strip()):
                raise ValueError(f"{self.token_file} is empty")  # Consul would show nothing
            request.add_header("X-Consul-Token", token)
        with urllib.request.urlopen(request, timeout=70, context=self.tls) as response:
            if response.headers.get("X-Consul-Results-Filtered-By-ACLs") == "true":
                raise PermissionError("the token may not read all services and nodes")
            fresh = int(response.headers["X-Consul-Index"])
            return json.load(response), fresh if fresh >= index else 0  # less: it began anew


class Provider:
    """Follows Consul, and serves what it read last, with the number of each entry's change."""

    def __init__(self, options):
        self.consul, self.namespace, self.tag = Consul(options), options.namespace, options.tag
        self.reading, self.changed = threading.Lock(), threading.Condition()
        self.entries = {}  # (kind, name) → (number, message; None: removed)
        self.number, self.complete, self.failing = 0, False, set()
        for path in "/v1/catalog/services", "/v1/health/state/any":  # registrations, checks
            threading.Thread(target=self.follow, args=(path,), daemon=True).start()

    def follow(self, path):
        index, pause = 0, 1
        while True:
            try:
                index = self.consul.get(path, index)[1]
                with self.reading:
                    self.take(self.read())
                pause, failed = 1, False
            except Exception as error:  # what was known stays
                logging.warning("Consul does not answer %s: %s", path, error)
                pause, failed, index = min(2 * pause, 30), True, 0
            with self.changed:
                (self.failing.add if failed else self.failing.discard)(path)
                self.changed.notify_all()
            time.sleep(pause)  # also a bound, however often Consul changes

    def read(self):
        """{(kind, name): message} of everything that Consul has now."""
        fresh = {}
        listed = self.consul.get("/v1/catalog/services")[0]
        for name in (name for name, tags in listed.items() if self.tag in tags):
            service = pb.ServiceEndpoints(namespace=self.namespace, name=name)
            for entry in self.consul.get("/v1/health/service/" + urllib.parse.quote(name, safe=""))[0]:
                instance, node = entry["Service"], entry["Node"]
                meta, weight = instance["Meta"] or {}, instance["Weights"]["Passing"]
                address = instance["Address"] or node["Address"]
                place = {"address": address, "service_account": meta.get("osm-account", "")}
                ports = {"port": instance["Port"], "service_port": meta.get("osm-port", "")}
                healthy = all(check["Status"] != "critical" for check in entry["Checks"])
                endpoint = service.endpoints.add(**place, **ports, weight=weight, healthy=healthy)
                if zone := (node["Meta"] or {}).get("zone"):
                    endpoint.zone = zone
                fresh["workloads", node["Node"]] = pb.Workload(namespace=self.namespace, name=node["Node"], **place)
            fresh["services", name] = service
        return fresh

    def take(self, fresh):
        with self.changed:
            for key in self.entries.keys() | fresh.keys():
                if self.entries.get(key, (0, None))[1] != fresh.get(key):
                    self.number += 1
                    self.entries[key] = self.number, fresh.get(key)
            self.complete = True

    def state(self):
        return self.number, self.complete, not self.failing

    def since(self, number):
        message = pb.WatchResponse(complete=self.complete)
        message.health = pb.HEALTH_UNHEALTHY if self.failing else pb.HEALTH_HEALTHY
        for (kind, name), (changed, entry) in self.entries.items():
            if changed > number and entry is not None:
                getattr(message, kind).append(entry)
            elif changed > number:
                getattr(message, "removed_" + kind).add(namespace=self.namespace, name=name)
        return message

    def watch(self, request, context):
        """The method Watch of provider.proto."""
        if request.version != 1:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "this provider speaks version 1")
        told = (0, None, None)
        while context.is_active():
            with self.changed:
                self.changed.wait_for(lambda: self.state() != told, request.heartbeat_seconds / 2)
                message, told = self.since(told[0]), self.state()
            yield message


def serve(options):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
    watch = grpc.unary_stream_rpc_method_handler(
        Provider(options).watch, pb.WatchRequest.FromString, pb.WatchResponse.SerializeToString
    )
    service = "openservicemesh.provider.v1.EndpointsProvider"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Watch": watch}),))
    if options.listen.startswith("unix:"):
        os.umask(0o007)  # this user and this group connect: the controller's user is in it
        server.add_insecure_port(options.listen)
    else:
        files = options.key, options.certificate, options.client_ca
        key, certificate, clients = (open(name, "rb").read() for name in files)
        credentials = grpc.ssl_server_credentials([(key, certificate)], clients, require_client_auth=True)
        server.add_secure_port(options.listen, credentials)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", required=True, help="unix:/PATH, or HOST:PORT over mutual TLS")
    for flag in "--certificate", "--key", "--client-ca":
        parser.add_argument(flag, help="PEM file, for HOST:PORT")
    parser.add_argument("--consul", default="https://127.0.0.1:8501", help="URL of Consul")
    parser.add_argument("--consul-ca", help="PEM file of Consul's CA; default: the system's")
    parser.add_argument("--token-file", help="file with a token for reading services and nodes")
    parser.add_argument("--namespace", required=True, help="namespace of the services in the mesh")
    parser.add_argument("--tag", default="osm", help="tag of the services that are listed")
    serve(parser.parse_args())
