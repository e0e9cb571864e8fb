"""An HTTP server that gets each path from another server, with the caller's tracing headers.

relay_app.py PORT HOST:PORT
"""

import http.client
import http.server
import sys

TRACING = {
    "traceparent",
    "tracestate",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-flags",
    "x-request-id",
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        headers = {k: v for k, v in self.headers.items() if k.lower() in TRACING}
        connection = http.client.HTTPConnection(sys.argv[2], timeout=5)
        try:
            connection.request("GET", self.path, headers=headers)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
        except OSError as failed:
            status, body = 502, repr(failed).encode()
        finally:
            connection.close()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
