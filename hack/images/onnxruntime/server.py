#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Serves one model in the format ONNX by the Open Inference Protocol, version 2 (REST).

    onnx-server --model FILE [--name NAME] [--host ADDRESS] [--port PORT] [--threads N] [--parallel N]
    onnx-server --version

GET  /v2                                 what the server is
GET  /v2/health/live, /v2/health/ready   200 while it serves
GET  /v2/models/NAME                     inputs and outputs, with their types and shapes
GET  /v2/models/NAME/ready               200 while it serves
POST /v2/models/NAME/infer               tensors in JSON
GET  /metrics                            counts of requests, for Prometheus

API_KEY_FILE names a file with the key that clients show as a bearer token, but for /v2/health. After SIGTERM requests
that are under way are answered, and the process ends.
"""

import argparse
import contextlib
import hmac
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime as ort

# Types of ONNX Runtime, with those of the protocol and of numpy.
TYPES = {
    "tensor(bool)": ("BOOL", np.bool_),
    "tensor(uint8)": ("UINT8", np.uint8),
    "tensor(uint16)": ("UINT16", np.uint16),
    "tensor(uint32)": ("UINT32", np.uint32),
    "tensor(uint64)": ("UINT64", np.uint64),
    "tensor(int8)": ("INT8", np.int8),
    "tensor(int16)": ("INT16", np.int16),
    "tensor(int32)": ("INT32", np.int32),
    "tensor(int64)": ("INT64", np.int64),
    "tensor(float16)": ("FP16", np.float16),
    "tensor(float)": ("FP32", np.float32),
    "tensor(double)": ("FP64", np.float64),
    "tensor(string)": ("BYTES", np.object_),
}

# Bytes of the largest request.
MAX_REQUEST = 64 << 20


class BadRequest(Exception):
    """What a client has to do otherwise."""


@contextlib.contextmanager
def without_noise():
    """Leaves out of standard error that Debian's ONNX Runtime finds each operator registered already, which is so."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said.seek(0)
            for line in said:
                if line.strip() and not line.startswith(b"Schema error: Trying to register schema"):
                    os.write(2, line)


class Model:
    """A model that is loaded. All of its methods may be called by several threads."""

    def __init__(self, path, name, threads, parallel):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.name = name
        with without_noise():
            self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = {i.name: i for i in self.session.get_inputs()}
        self.outputs = {o.name: o for o in self.session.get_outputs()}
        for tensor in [*self.inputs.values(), *self.outputs.values()]:
            if tensor.type not in TYPES:
                raise SystemExit(f"{tensor.name} of the model is a {tensor.type}, and tensors alone are served")
        self.computing = threading.BoundedSemaphore(parallel)

    def check(self):
        """Computes once. A model that is loaded may still be unable to compute."""
        feed, fixed = {}, True
        for name, tensor in self.inputs.items():
            fixed = fixed and all(isinstance(n, int) for n in tensor.shape)
            shape = [n if isinstance(n, int) else 1 for n in tensor.shape]
            kind = TYPES[tensor.type][1]
            feed[name] = np.full(shape, "", kind) if kind is np.object_ else np.zeros(shape, kind)
        try:
            self.session.run(None, feed)
        except Exception as error:
            if fixed:
                raise SystemExit(f"the model does not compute: {error}") from None
            print(f"the model was not tried: with 1 for each free dimension it does not compute: {error}", flush=True)

    def about(self):
        def described(tensors):
            return [{"name": t.name, "datatype": TYPES[t.type][0],
                     "shape": [n if isinstance(n, int) else -1 for n in t.shape]} for t in tensors]
        return {"name": self.name, "versions": [], "platform": "onnxruntime_onnx",
                "inputs": described(self.inputs.values()), "outputs": described(self.outputs.values())}

    def infer(self, request):
        if not isinstance(request, dict) or not isinstance(request.get("inputs"), list):
            raise BadRequest("the request has no list inputs")
        feed = dict(self.read(tensor) for tensor in request["inputs"])
        missing = sorted(self.inputs.keys() - feed.keys())
        if missing:
            raise BadRequest(f"the request has no input {missing[0]!r}")
        wanted = [o.get("name") for o in request.get("outputs") or []] or list(self.outputs)
        for name in wanted:
            if name not in self.outputs:
                raise BadRequest(f"the model has no output {name!r}")
        try:
            with self.computing:
                values = self.session.run(wanted, feed)
        except Exception as error:  # Shapes that do not fit are found by the runtime.
            raise BadRequest(f"the model does not compute this: {error}") from None
        answer = {"model_name": self.name, "outputs": [self.told(*of) for of in zip(wanted, values)]}
        if "id" in request:
            answer["id"] = request["id"]
        return answer

    def read(self, tensor):
        """Returns an input by its name."""
        if not isinstance(tensor, dict) or tensor.get("name") not in self.inputs:
            raise BadRequest(f"the model has no input {tensor.get('name') if isinstance(tensor, dict) else tensor!r}")
        name = tensor["name"]
        datatype, kind = TYPES[self.inputs[name].type]
        if tensor.get("datatype") != datatype:
            raise BadRequest(f"input {name!r} has the datatype {tensor.get('datatype')!r}, and is a {datatype}")
        try:
            return name, np.array(tensor["data"], dtype=kind).reshape(tensor["shape"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadRequest(f"input {name!r} cannot be read: {error}") from None

    def told(self, name, value):
        return {"name": name, "datatype": TYPES[self.outputs[name].type][0], "shape": list(value.shape),
                "data": value.ravel().tolist()}


class Counts:
    """Counts of requests to the model."""

    def __init__(self):
        self.lock = threading.Lock()
        self.processing, self.total, self.failed, self.seconds = 0, 0, 0, 0.0

    def begin(self):
        with self.lock:
            self.processing += 1
        return time.monotonic()

    def end(self, begun, failed):
        with self.lock:
            self.processing -= 1
            self.total += 1
            self.failed += failed
            self.seconds += time.monotonic() - begun

    def text(self):
        with self.lock:
            samples = [("requests_processing", "gauge", self.processing), ("requests_total", "counter", self.total),
                       ("requests_failed_total", "counter", self.failed),
                       ("request_seconds_total", "counter", self.seconds)]
        return "".join(f"# TYPE open_inference_{name} {kind}\nopen_inference_{name} {value}\n"
                       for name, kind, value in samples)


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    model = counts = key = None

    def do_GET(self):
        model = f"/v2/models/{self.model.name}"
        if self.path in ("/v2/health/live", "/v2/health/ready"):
            return self.answer(200, {self.path.rsplit("/", 1)[1]: True})
        if not self.admitted():
            return None
        if self.path == "/v2":
            return self.answer(200, {"name": "onnx-server", "version": ort.__version__, "extensions": []})
        if self.path == model:
            return self.answer(200, self.model.about())
        if self.path == model + "/ready":
            return self.answer(200, {"name": self.model.name, "ready": True})
        if self.path == "/metrics":
            return self.write(200, "text/plain; version=0.0.4", self.counts.text().encode())
        return self.answer(404, {"error": f"there is no {self.path}"})

    def do_POST(self):
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            size = -1
        if not 0 <= size <= MAX_REQUEST:
            self.close_connection = True
            return self.answer(413, {"error": f"a request says its Content-Length, which is {MAX_REQUEST} at most"})
        body = self.rfile.read(size)
        if not self.admitted():
            return None
        if self.path != f"/v2/models/{self.model.name}/infer":
            return self.answer(404, {"error": f"there is no {self.path}"})
        begun, failed = self.counts.begin(), True
        try:
            answer = json.dumps(self.model.infer(json.loads(body)), allow_nan=False).encode()
            self.write(200, "application/json", answer)
            failed = False
        except (BadRequest, ValueError) as error:  # A ValueError is of JSON: in the request, or a NaN in the answer.
            self.answer(400, {"error": str(error)})
        finally:
            self.counts.end(begun, failed)
        return None

    def admitted(self):
        if self.key is None:
            return True
        shown = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(shown.encode(), self.key.encode()):
            return True
        self.answer(401, {"error": "the API key is missing or wrong"})
        return False

    def answer(self, status, content):
        self.write(status, "application/json", json.dumps(content).encode())

    def write(self, status, kind, data):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if self.server.ending:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Requests are counted and not logged."""


class Server(ThreadingHTTPServer):
    """Serves until it is told to end."""

    daemon_threads = True
    request_queue_size = 128
    ending = False

    def __init__(self, host, port):
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def end(self, *_):
        self.ending = True
        threading.Thread(target=self.shutdown).start()


def main():
    flags = argparse.ArgumentParser(description="Serve a model in the format ONNX by the Open Inference Protocol.")
    flags.add_argument("--version", action="store_true", help="say the version of ONNX Runtime")
    flags.add_argument("--model", help="file of the model")
    flags.add_argument("--name", default="model", help="name that clients call the model by")
    flags.add_argument("--host", default="::", help="address to listen on")
    flags.add_argument("--port", type=int, default=8080)
    flags.add_argument("--threads", type=int, default=1, help="threads that compute one request")
    flags.add_argument("--parallel", type=int, default=4, help="requests that are computed at the same time")
    given = flags.parse_args()
    if given.version:
        print(f"version: {ort.__version__}")
        return
    if not given.model:
        flags.error("--model is missing")
    Handler.model = Model(given.model, given.name, given.threads, given.parallel)
    Handler.counts = Counts()
    if os.environ.get("API_KEY_FILE"):
        with open(os.environ["API_KEY_FILE"], encoding="utf-8") as file:
            Handler.key = file.read()
    Handler.model.check()
    server = Server(given.host, given.port)
    signal.signal(signal.SIGTERM, server.end)
    print(f"serving {given.name} with ONNX Runtime {ort.__version__} at port {given.port}", flush=True)
    server.serve_forever(poll_interval=0.2)
    while Handler.counts.processing:
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
