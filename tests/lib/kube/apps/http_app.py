"""A small HTTP server for pods and machines: says who it is, fetches for a test from inside of its
pod, fails on request, and ends gracefully. It runs with the system's Python, which has nothing but
the standard library.

    http_app.py [--port N] [--drain SECONDS]

GET /tries/KEY?fail=N   the first N tries of KEY get 503, later ones 200
GET /tries/KEY?slow=N   the first N tries of KEY get no answer
GET /count/KEY          {"tries": the number of tries of KEY so far}
GET /status/N           answers with status N
"""

import argparse
import collections
import http.server
import json
import os
import signal
import threading
import time
import urllib.parse
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer's head and body leave together, or neither does
    tries = collections.Counter()
    lock = threading.Lock()
    never = threading.Event()

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/fetch":  # what this pod gets from somebody else
            self._answer(200, fetch(query["url"]))
        elif url.path.startswith("/hook/"):
            print(f"hook {self.path}", flush=True)
            self._answer(200, {})
        elif url.path.startswith("/tries/"):
            self._try(url.path.removeprefix("/tries/"), query)
        elif url.path.startswith("/count/"):
            self._answer(200, {"tries": self.tries[url.path.removeprefix("/count/")]})
        elif url.path.startswith("/status/"):
            self._answer(int(url.path.removeprefix("/status/")), {})
        elif url.path == "/file":
            self._answer(200, {"text": open(query["path"]).read()})
        else:
            self._answer(
                200,
                {
                    "pod": os.environ.get("HOSTNAME"),
                    "path": url.path,
                    "version": os.environ.get("VERSION", ""),
                    "client": self.client_address[0],
                    "headers": dict(self.headers.items()),
                },
            )

    do_POST = do_GET

    def _try(self, key, query):
        with self.lock:
            self.tries[key] += 1
            tries = self.tries[key]
        if tries <= int(query.get("slow", 0)):
            self.never.wait()
        self._answer(503 if tries <= int(query.get("fail", 0)) else 200, {"tries": tries})

    def _answer(self, status, obj):
        body = (json.dumps(obj) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.server.ending:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    ending = False


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return {"status": answer.status, "body": answer.read().decode()}
    except urllib.error.HTTPError as refused:
        return {"status": refused.code, "body": refused.read().decode(errors="replace")}
    except OSError as failed:
        return {"status": 0, "body": repr(failed)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--drain", type=float, default=0.0)
    options = parser.parse_args()
    server = Server(("0.0.0.0", options.port), Handler)

    def drain():
        time.sleep(options.drain)  # those who have not yet heard of the end are still served
        server.shutdown()

    def end(*_):
        server.ending = True
        threading.Thread(target=drain).start()

    signal.signal(signal.SIGTERM, end)
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
