"""vLLM's HTTP stack, FastAPI on uvicorn, without a model: what it answers are captures of a real vLLM.

SPECTAP_CAPTURES names the folder of the captures. SPECTAP_GZIP=1 adds the middleware that compresses.
Headers of a request choose its answer:

  X-Capture  a name of captures.FAMILIES, answered as stream_options ask, or of one capture
  X-Status   an error with this status, in vLLM's shape
  X-Gate     before each event wait for a POST /gate/NAME
  X-Pace     wait so many seconds before each event
  X-Case     keep what becomes of the request for GET /case/NAME
"""

import asyncio
import collections
import contextlib
import hashlib
import json
import os

import fastapi
from fastapi import Form, Request, UploadFile, WebSocket
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.middleware.gzip import GZipMiddleware

import captures


class Case:
    """What became of the requests of one name, in order."""

    def __init__(self):
        self.notes = []
        self.grown = asyncio.Condition()

    async def note(self, word):
        async with self.grown:
            self.notes.append(word)
            self.grown.notify_all()

    async def until(self, word):
        async with self.grown:
            await self.grown.wait_for(lambda: word in self.notes)
            return list(self.notes)


cases = collections.defaultdict(Case)
gates = collections.defaultdict(lambda: asyncio.Semaphore(0))


class Cases:
    """Notes what ASGI tells of a request, and what the application sent."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        name = dict(scope["headers"]).get(b"x-case") if scope["type"] == "http" else None
        if name is None:
            return await self.app(scope, receive, send)
        case, whole = cases[name.decode()], False

        async def seen():
            message = await receive()
            if message["type"] == "http.disconnect" and not whole:
                await case.note("http.disconnect")
            return message

        async def sent(message):
            nonlocal whole
            await send(message)
            whole = message["type"] == "http.response.body" and not message.get("more_body", False)

        await case.note("began")
        try:
            await self.app(scope, seen, sent)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await case.note("whole" if whole else "cut")


app = fastapi.FastAPI()
app.add_middleware(Cases)
if os.environ.get("SPECTAP_GZIP"):
    app.add_middleware(GZipMiddleware, minimum_size=100)


def error(status, message="scripted", kind="Scripted"):
    headers = {"Retry-After": "0"} if status in (429, 503) else None
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": status}}, status, headers)


async def delay(request):
    if "x-gate" in request.headers:
        await gates[request.headers["x-gate"]].acquire()
    await asyncio.sleep(float(request.headers.get("x-pace", 0)))


async def unless_gone(request, work):
    """The result of the work, None where the client leaves before; vLLM's with_cancellation."""

    async def gone():
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(gone())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if not task.done():
            task.cancel()
    return tasks[0].result() if tasks[0].done() and not tasks[0].cancelled() else None


@app.post("/v1/chat/completions")
@app.post("/v1/completions")
@app.post("/v1/messages")
@app.post("/v1/responses")
async def generate(request: Request):
    try:
        body = await request.json()
    except ValueError:
        return error(400, "1 validation error: JSON decode error", "Bad Request")
    if "x-status" in request.headers:
        return error(int(request.headers["x-status"]))
    options = body.get("stream_options") or {}
    answer = captures.answer(request.headers.get("x-capture", "chat" if body.get("stream") else "nd-chat-nonstream"), options)
    body.pop("stream_options", None)
    seen = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    headers = {"X-Seen": seen, "X-Request-Id": request.headers.get("x-request-id", "none")}
    if not answer.stream:
        if await unless_gone(request, delay(request)) is None and await request.is_disconnected():
            return Response(status_code=499)
        return Response(b"".join(answer.parts), answer.status, headers, "application/json")

    async def events():
        for part in answer.parts:
            await delay(request)
            yield part

    return StreamingResponse(events(), answer.status, headers, "text/event-stream")


class Embeddings(BaseModel):
    input: list[str]
    dimensions: int = 8


@app.post("/v1/embeddings")
async def embeddings(body: Embeddings):
    return {"object": "list", "data": [{"index": i, "embedding": [0.1] * body.dimensions} for i, _ in enumerate(body.input)]}


@app.post("/v1/audio/transcriptions")
async def transcriptions(file: UploadFile, model: str = Form(), language: str = Form("en")):
    content = await file.read()
    return {"text": hashlib.sha256(content).hexdigest(), "bytes": len(content), "filename": file.filename,
            "type": file.content_type, "model": model, "language": language}


@app.get("/v1/models")
async def models():
    return {"object": "list", "data": [{"id": "smollm2", "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 2048}]}


@app.get("/health")
async def health():
    return Response()


@app.get("/metrics")
async def metrics():
    return PlainTextResponse("".join(f"# HELP m{i} a counter\nm{i} {i}.0\n" for i in range(500)))


@app.get("/status/{code}")
async def status(code: int):
    return Response(status_code=code, headers={"ETag": '"one"', "X-Twice": "a"})


@app.api_route("/early/{code}", methods=["POST", "PUT"])
async def early(code: int, close: bool = False):
    """Answers without reading the request's body."""
    answer = error(code)
    if close:
        answer.headers["Connection"] = "close"
    return answer


@app.api_route("/echo/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@app.post("/v1/echo")
async def echo(request: Request, path: str = ""):
    """What the application sees of a request."""
    digest, size = hashlib.sha256(), 0
    async for part in request.stream():
        digest.update(part)
        size += len(part)
    headers = sorted([k.decode("latin-1"), v.decode("latin-1")] for k, v in request.scope["headers"])
    answer = JSONResponse({"method": request.method, "path": request.scope["raw_path"].decode("latin-1"), "query": request.scope["query_string"].decode("latin-1"),
                           "http": request.scope["http_version"], "headers": headers, "bytes": size, "sha256": digest.hexdigest()})
    answer.set_cookie("a", "1")
    answer.set_cookie("b", "2")
    return answer


@app.post("/gate/{name}")
async def gate(name: str, n: int = 1):
    for _ in range(n):
        gates[name].release()


@app.get("/case/{name}")
async def case(name: str, until: str = ""):
    return await cases[name].until(until) if until else cases[name].notes


@app.websocket("/v1/realtime")
async def realtime(socket: WebSocket):
    """Sends back what comes. "close N" closes with that code; a query of deny refuses."""
    if "deny" in socket.query_params:
        return await socket.close(1008)
    offered = socket.scope["subprotocols"]
    await socket.accept(offered[-1] if offered else None, [(b"x-case", socket.headers.get("x-case", "").encode())])
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return await cases[socket.headers.get("x-case", "")].note(f"closed {message['code']}")
        if (message.get("text") or "").startswith("close "):
            return await socket.close(int(message["text"][6:]), "as asked")
        await socket.send({"type": "websocket.send", **{k: message[k] for k in ("text", "bytes") if message.get(k) is not None}})
