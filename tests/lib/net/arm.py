"""A stand-in for Azure Resource Manager, its authority and the instance metadata service.

It is none of Microsoft's: it answers by the published schemas, in as far as the mesh reads them, and
holds each request to them. `faults` has what no client may send. Servers are threads of the test.
"""

import datetime
import http.server
import json
import re
import secrets
import ssl
import threading
import time
import urllib.parse

from lib.mesh.authority import certify
from lib.net.netns import ip

TENANT, CLIENT, SECRET = "11111111-2222-4333-8444-555555555555", "mesh-reader", "s3cret-of/the+app"
GROUP = "/subscriptions/00000000-1111-4222-8333-444444444444/resourceGroups/shop"
COMPUTE, NETWORK, SCALE_SET_NETWORK = "2024-07-01", "2024-05-01", "2018-10-01"
PAGE = 2  # entries of a page: smaller than any real one


def machine_id(name):
    return f"{GROUP}/providers/Microsoft.Compute/virtualMachines/{name}"


def scale_set_id(name):
    return f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}"


def interface_id(name):
    return f"{GROUP}/providers/Microsoft.Network/networkInterfaces/{name}"


class Arm:
    """`machines`: {name: (address, running)}; `scale_sets`: {name: {instance: (address, running)}}, those in
    flexible mode also in `flexible`: their lists are empty."""

    TLS_PORT = 8443
    METADATA = "169.254.169.254", 80  # where a machine of Azure has it

    def __init__(self, namespace, address, directory):
        self.namespace, self.address = namespace, address
        self.machines, self.scale_sets, self.flexible, self.forbidden = {}, {}, set(), set()
        self.faults, self.requests, self.tokens = [], [], {}
        self.token_life, self.secret = 3600, SECRET
        self.elsewhere = False  # pages continue at another server
        self.throttled_until, self.throttles = 0, 0
        self.lock = threading.Lock()
        directory.mkdir()
        now = datetime.datetime.now(datetime.timezone.utc)
        until = now + datetime.timedelta(days=2)
        ca = certify(directory, "ca", ["basicConstraints = critical, CA:TRUE"], now, until)
        leaf = certify(directory, "arm", [f"subjectAltName = IP:{address}"], now, until, ca)
        self.ca_file = ca[0]
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*leaf)
        self.servers = []
        ip("-n", namespace.name, "address", "add", f"{self.METADATA[0]}/32", "dev", "lo")
        self.start()

    # -- the test's side ------------------------------------------------------------------------
    def start(self):
        self.servers = [self._serve((self.address, self.TLS_PORT), self.context), self._serve(self.METADATA, None)]

    def stop(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
        self.servers = []

    def throttle(self, seconds):
        """Answers 429 from now on, and asks to stay away so long from the first such answer."""
        with self.lock:
            self.throttles, self.throttled_until = seconds, None

    def revoke(self):
        """The tokens so far are not valid any more."""
        with self.lock:
            self.tokens.clear()

    def operations(self):
        with self.lock:
            return [name for name, _ in self.requests]

    # -- the server's side ----------------------------------------------------------------------
    def _serve(self, address, context):
        arm = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                if not arm.servers:  # stopped: a connection that was kept ends, too
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                url = urllib.parse.urlsplit(self.path)
                query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
                try:
                    status, content, headers = arm.answer(
                        context is not None, self.command, url.path, query, self.headers, body
                    )
                except Exception as failed:  # a thread's failure would be seen by nobody
                    arm.fault(f"{self.command} {self.path}: {failed!r}")
                    status, content, headers = 500, {}, {}
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, request, client):  # in the connection's thread
                if context is not None:
                    request = context.wrap_socket(request, server_side=True)
                self.RequestHandlerClass(request, client, self)

            def handle_error(self, *_):
                pass  # a client that goes away

        server = Server(address, Handler, False)
        server.socket.close()
        server.socket = self.namespace.listen(*address)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def answer(self, tls, method, path, query, headers, body):
        if not tls:
            return self.metadata(method, path, query, headers)
        if path.endswith("/oauth2/v2.0/token"):
            return self.authority(method, path, query, headers, body)
        return self.manager(method, path, query, headers)

    def issue(self, seconds):
        token = "eyJ" + secrets.token_urlsafe(200)
        with self.lock:
            self.tokens[token] = time.monotonic() + self.token_life
        return {"token_type": "Bearer", "expires_in": seconds, "access_token": token}

    def metadata(self, method, path, query, headers):
        origin = f"https://{self.address}:{self.TLS_PORT}/"
        wanted = {"api-version": ["2018-02-01"], "resource": [origin]}
        if (
            (method, path, query) != ("GET", "/metadata/identity/oauth2/token", wanted)
            or headers.get("Metadata") != "true"
            or "X-Forwarded-For" in headers
        ):
            self.fault(f"metadata: {method} {path} {query}")
            return 400, {"error": "invalid_request", "error_description": "x"}, {}
        with self.lock:
            self.requests.append(("metadata", path))
        # The metadata service writes numbers as text.
        return (
            200,
            {
                **self.issue(str(self.token_life)),
                "resource": origin,
                "expires_on": str(int(time.time()) + self.token_life),
            },
            {},
        )

    def authority(self, method, path, query, headers, body):
        form = {k: v[0] for k, v in urllib.parse.parse_qs(body.decode()).items()}
        wanted = {
            "grant_type": "client_credentials",
            "client_id": CLIENT,
            "scope": f"https://{self.address}:{self.TLS_PORT}/.default",
        }
        secret = form.pop("client_secret", "")
        if (method, path, query, form) != ("POST", f"/{TENANT}/oauth2/v2.0/token", {}, wanted) or headers.get(
            "Content-Type"
        ) != "application/x-www-form-urlencoded":
            self.fault(f"authority: {method} {path} {query} {form}")
            return 400, {"error": "invalid_request"}, {}
        with self.lock:
            self.requests.append(("authority", path))
        if secret != self.secret:
            return 401, {"error": "invalid_client", "error_description": f"the secret {secret} is not valid"}, {}
        return 200, self.issue(self.token_life), {}

    def manager(self, method, path, query, headers):
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        with self.lock:
            valid = self.tokens.get(token, 0) > time.monotonic()
            if method != "GET" or scheme != "Bearer" or not token:
                self.faults.append(f"ARM: {method} {path}: {scheme or 'no token'}")
            if self.throttles and self.throttled_until is None:
                self.throttled_until = time.monotonic() + self.throttles
                self.requests.append(("throttled", path))
                return (
                    429,
                    {"error": {"code": "TooManyRequests", "message": "slower"}},
                    {"Retry-After": str(self.throttles)},
                )
            # Requests that were on their way are no fault.
            if self.throttles and time.monotonic() < self.throttled_until:
                if time.monotonic() > self.throttled_until - self.throttles + 1:
                    self.faults.append(f"ARM: {path} while ARM throttles")
                return 429, {}, {"Retry-After": str(self.throttles)}
            self.throttles = 0
        if not valid:
            return (
                401,
                {"error": {"code": "ExpiredAuthenticationToken", "message": f"The access token {token} has expired."}},
                {},
            )
        return self.resource(path, query)

    def resource(self, path, query):
        found = re.fullmatch(
            re.escape(GROUP) + r"/providers/Microsoft\.(Compute|Network)/(\w+)/"
            r"([\w.-]+)(?:/(networkInterfaces|virtualMachines))?",
            path,
        )
        if not found:
            self.fault(f"ARM: {path}")
            return 404, {}, {}
        kind, name, part = found.group(2), found.group(3), found.group(4)
        expand = {"$expand": ["instanceView"]}
        operation, wanted = {
            ("virtualMachines", None): ("machine", {"api-version": [COMPUTE], **expand}),
            ("networkInterfaces", None): ("interface", {"api-version": [NETWORK]}),
            ("virtualMachineScaleSets", None): ("scale set", {"api-version": [COMPUTE]}),
            ("virtualMachineScaleSets", "networkInterfaces"): ("interfaces", {"api-version": [SCALE_SET_NETWORK]}),
            ("virtualMachineScaleSets", "virtualMachines"): ("instances", {"api-version": [COMPUTE], **expand}),
        }.get((kind, part), (None, None))
        skip = query.pop("$skiptoken", ["0"])[0]
        if operation is None or query != wanted:
            self.fault(f"ARM: {path} {query}")
            return 400, {"error": {"code": "InvalidApiVersionParameter", "message": "x"}}, {}
        with self.lock:
            self.requests.append((operation, path))
        if name in self.forbidden:
            return (
                403,
                {"error": {"code": "AuthorizationFailed", "message": "The client does not have authorization."}},
                {},
            )
        known = {
            "virtualMachines": self.machines,
            "networkInterfaces": self.machines,
            "virtualMachineScaleSets": self.scale_sets,
        }[kind]
        key = name.removesuffix("-nic")
        if key not in known:
            return (
                404,
                {"error": {"code": "ResourceNotFound", "message": f"The Resource '{kind}/{name}' was not found."}},
                {},
            )
        if operation == "machine":
            return 200, self.machine(name), {}
        if operation == "interface":
            return 200, self.interface(interface_id(name), known[key][0], machine_id(key)), {}
        if operation == "scale set":
            return 200, self.scale_set(name), {}
        if key in self.flexible:
            return 200, {"value": []}, {}
        make = self.interfaces if operation == "interfaces" else self.instances
        return 200, self.page(path, wanted, make(key), int(skip)), {}

    def page(self, path, query, entries, skip):
        page = {"value": entries[skip : skip + PAGE]}
        if skip + PAGE < len(entries):
            more = urllib.parse.urlencode({k: v[0] for k, v in query.items()} | {"$skiptoken": skip + PAGE})
            host = "elsewhere.example" if self.elsewhere else f"{self.address}:{self.TLS_PORT}"
            page["nextLink"] = f"https://{host}{path}?{more}"
        return page

    @staticmethod
    def view(running):
        state = "running" if running else "deallocated"
        return {
            "statuses": [
                {
                    "code": "ProvisioningState/succeeded",
                    "level": "Info",
                    "displayStatus": "Provisioning succeeded",
                    "time": "2026-01-01T00:00:00+00:00",
                },
                {"code": f"PowerState/{state}", "level": "Info", "displayStatus": f"VM {state}"},
            ]
        }

    def machine(self, name):
        return {
            "id": machine_id(name),
            "name": name,
            "location": "westeurope",
            "zones": ["1"],
            "type": "Microsoft.Compute/virtualMachines",
            "properties": {
                "vmId": "x",
                "provisioningState": "Succeeded",
                "networkProfile": {
                    "networkInterfaces": [
                        {"id": interface_id(f"{name}-second"), "properties": {"primary": False}},
                        {"id": interface_id(f"{name}-nic"), "properties": {"primary": True}},
                    ]
                },
                "instanceView": self.view(self.machines[name][1]),
            },
        }

    def scale_set(self, name):
        return {
            "id": scale_set_id(name),
            "name": name,
            "location": "westeurope",
            "zones": ["2"],
            "type": "Microsoft.Compute/virtualMachineScaleSets",
            "sku": {"name": "Standard_D2s_v5", "tier": "Standard", "capacity": len(self.scale_sets[name])},
            "properties": {
                "provisioningState": "Succeeded",
                "orchestrationMode": "Flexible" if name in self.flexible else "Uniform",
            },
        }

    @staticmethod
    def interface(its_id, address, machine):
        return {
            "id": its_id,
            "name": its_id.rsplit("/", 1)[1],
            "properties": {
                "provisioningState": "Succeeded",
                "primary": True,
                "virtualMachine": {"id": machine},
                "ipConfigurations": [
                    {
                        "name": "six",
                        "properties": {
                            "privateIPAddress": "fd00::7",
                            "primary": False,
                            "privateIPAddressVersion": "IPv6",
                        },
                    },
                    {
                        "name": "four",
                        "properties": {"privateIPAddress": address, "primary": True, "privateIPAddressVersion": "IPv4"},
                    },
                ],
            },
        }

    def interfaces(self, name):
        made = []
        for instance, (address, _) in sorted(self.scale_sets[name].items()):
            machine = f"{scale_set_id(name)}/virtualMachines/{instance}"
            made.append(self.interface(f"{machine}/networkInterfaces/nic", address, machine))
        return made

    def instances(self, name):
        return [
            {
                "instanceId": instance,
                "name": f"{name}_{instance}",
                "zones": ["2"],
                "properties": {"provisioningState": "Succeeded", "instanceView": self.view(running)},
            }
            for instance, (_, running) in sorted(self.scale_sets[name].items())
        ]
