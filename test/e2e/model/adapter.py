# SPDX-License-Identifier: Apache-2.0
"""Serves metrics of the pods of the Inference chat by the API custom.metrics.k8s.io, as an adapter of a Prometheus does.

Usage: adapter.py CERTIFICATE KEY
"""

import json
import ssl
import sys
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = "custom.metrics.k8s.io/v1beta2"
PODS = [f"inference-chat-server-main-{ordinal}" for ordinal in range(3)]


def value(pod, metric):
    """What a pod says of a metric; None where it says nothing."""
    try:
        with urllib.request.urlopen(f"http://{pod}.inference-chat-server-headless:8080/metrics", timeout=2) as answer:
            for line in answer.read().decode().splitlines():
                name, _, number = line.partition(" ")
                if name == metric:
                    return float(number)
    except OSError:
        pass
    return None


def metrics(namespace, metric):
    """The MetricValueList of a metric of the pods that there are."""
    values = {pod: value(pod, metric) for pod in PODS}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"kind": "MetricValueList", "apiVersion": VERSION, "metadata": {}, "items": [
        {"describedObject": {"kind": "Pod", "namespace": namespace, "name": pod, "apiVersion": "v1"},
         "metric": {"name": metric}, "timestamp": now, "value": f"{round(number * 1000)}m"}
        for pod, number in values.items() if number is not None]}


class Handler(BaseHTTPRequestHandler):
    """Answers the API server."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).removeprefix(f"/apis/{VERSION}")
        match path.split("/"):
            case [""]:
                self.answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION, "resources": [
                    {"name": "pods/llamacpp:requests_processing", "singularName": "", "namespaced": True,
                     "kind": "MetricValueList", "verbs": ["get"]}]})
            case ["", "namespaces", namespace, "pods", "*", metric]:
                self.answer(200, metrics(namespace, metric))
            case _:
                self.answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
                                  "code": 404})

    def answer(self, code, content):
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[1], sys.argv[2])
    server = ThreadingHTTPServer(("", 6443), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
