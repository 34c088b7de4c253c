"""Speaks with /v1/realtime over WebSockets and prints what it got, one JSON line a step.

Usage: sockets.py URL RUN. RUN is the X-Case of the connections, with a word behind it.
"""

import hashlib
import json
import socket
import sys

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

URL, RUN = sys.argv[1].replace("http://", "ws://") + "/v1/realtime", sys.argv[2]


def show(step, **got):
    print(json.dumps({"name": step, **got}, sort_keys=True), flush=True)


def short(message):
    """A message, or the hash of a long one."""
    if len(message) < 100:
        return message if isinstance(message, str) else message.hex()
    return f"{type(message).__name__} of {len(message)}: {hashlib.sha256(message if isinstance(message, bytes) else message.encode()).hexdigest()}"


def opened(word, **settings):
    return connect(URL, additional_headers={"X-Case": f"{RUN}-{word}", "Authorization": "Bearer k"}, **settings)


def closing(ws):
    try:
        ws.recv()
    except ConnectionClosed as closed:
        return {"code": closed.rcvd and closed.rcvd.code, "reason": closed.rcvd and closed.rcvd.reason}


for compression in ("deflate", None):
    with opened("talk", subprotocols=["realtime", "other"], compression=compression, max_size=None) as ws:
        answer = {name.lower(): value for name, value in ws.response.headers.raw_items()}
        kept = ("upgrade", "connection", "sec-websocket-protocol", "sec-websocket-extensions", "server", "x-case")
        show(f"opened, compression {compression}", status=ws.response.status_code, subprotocol=ws.subprotocol, headers={k: answer.get(k, "").partition("-")[2] if k == "x-case" else answer.get(k) for k in kept})
        for i, message in enumerate(("hello", "さくら 🌅", "", b"\x00\xff", b"", "x" * 70_000, bytes(range(256)) * 4096)):
            ws.send(message)
            show(f"message {i} of {len(message)}, compression {compression}", echo=short(ws.recv()))
        ws.send(["in ", "three ", "frames"])
        show(f"fragments, compression {compression}", echo=ws.recv())
        show(f"ping, compression {compression}", answered=ws.ping(b"beat").wait(10))
        for i in range(200):
            ws.send(f"{i}")
        show(f"many, compression {compression}", echoes=[ws.recv() for _ in range(200)])

with opened("asked") as ws:
    ws.send("close 4001")
    show("closed by the server", **closing(ws))

with opened("client") as ws:
    ws.close(4002, "enough")
    show("closed by the client", code=ws.close_code)

with opened("gone") as ws:
    ws.send("a")
    ws.recv()
    ws.socket.shutdown(socket.SHUT_RDWR)

try:
    connect(URL + "?deny", additional_headers={"X-Case": RUN + "-denied"})
except InvalidStatus as refused:
    show("refused", status=refused.response.status_code, body=refused.response.body.decode())
