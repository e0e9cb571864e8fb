"""A Kubernetes API server in memory: enough for a daemon to start. It stores what it is given, without rules.
Its watches tell nothing."""

import contextlib
import http.server
import json
import ssl
import threading
import urllib.parse
import uuid

WATCH = 600  # seconds of a watch


def kubeconfig(path, pki, port, **user):
    """Writes the kubeconfig of a server on this machine, and returns its path. `user`: credentials."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(pki.ca)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config))
    return path


@contextlib.contextmanager
def serving(pki, handler, port=0):
    """A server of one kind of requests over TLS; the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads, server.block_on_close = True, False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pki.server("api", "IP:127.0.0.1"))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers in JSON, and tells nobody."""

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def failure(self, status, reason, message):
        self.answer(
            status, {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
        )

    def log_message(self, *_):
        pass


def small_api(refuses=lambda path: False):
    """The handler of a server with a store of its own. `refuses`: true for paths for which it wants another
    token."""
    store, lock = {}, threading.Lock()

    class SmallApi(Answering):
        protocol_version = "HTTP/1.1"

        def body(self):
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

        def keep(self, path, kept):
            metadata = kept.setdefault("metadata", {})
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata["resourceVersion"] = str(int(metadata.get("resourceVersion", "0")) + 1)
            store[path] = kept
            return kept

        def do_GET(self):
            url = urllib.parse.urlsplit(self.path)
            if refuses(url.path):
                return self.failure(401, "Unauthorized", "another token is wanted")
            if url.path == "/version":
                return self.answer(200, {"major": "1", "minor": "31", "gitVersion": "v1.31.0"})
            if "watch=1" in url.query:
                return self.watch()
            with lock:
                found = store.get(url.path)
                within = [kept for path, kept in store.items() if path.rpartition("/")[0] == url.path]
            if found:
                return self.answer(200, found)
            # The name of an object is the last word of an even number, behind /api/v1 or /apis/GROUP/VERSION.
            words = url.path.strip("/").split("/")[2 if url.path.startswith("/api/") else 3 :]
            if len(words) % 2 == 0 and not within:
                return self.failure(404, "NotFound", f"{url.path} is not there")
            return self.answer(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": within})

        def watch(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.close_connection = True
            self.connection.settimeout(WATCH)
            with contextlib.suppress(OSError):
                self.rfile.read(1)  # nothing comes, unless the client goes
                return
            with contextlib.suppress(OSError):
                self.wfile.write(b"0\r\n\r\n")

        def do_POST(self):
            made = self.body()
            path = f"{urllib.parse.urlsplit(self.path).path}/{made['metadata'].get('name', uuid.uuid4())}"
            with lock:
                if path not in store:
                    return self.answer(201, self.keep(path, made))
            return self.failure(409, "AlreadyExists", f"{path} is there")

        def do_PUT(self):
            path, given = urllib.parse.urlsplit(self.path).path, self.body()
            if refuses(path):
                return self.failure(401, "Unauthorized", "another token is wanted")
            with lock:
                return self.answer(200, self.keep(path, store.get(path, {}) | given))

        do_PATCH = do_PUT

    return SmallApi
