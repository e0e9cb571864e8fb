"""An HTTP server that fails on request. It counts the tries of each path.

    flaky_app.py PORT

GET /KEY?fail=N   the first N tries of KEY get 503, later ones 200
GET /KEY?slow=N   the first N tries of KEY get no answer
GET /count/KEY    the number of tries of KEY so far
"""
import collections
import http.server
import sys
import threading
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    tries = collections.Counter()
    lock = threading.Lock()
    never = threading.Event()

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        if url.path.startswith("/count/"):
            self._answer(200, self.tries[url.path.removeprefix("/count")])
            return
        query = dict(urllib.parse.parse_qsl(url.query))
        with self.lock:
            self.tries[url.path] += 1
            tries = self.tries[url.path]
        if tries <= int(query.get("slow", 0)):
            self.never.wait()
        self._answer(503 if tries <= int(query.get("fail", 0)) else 200, tries)

    def _answer(self, status, number):
        body = str(number).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
