"""Asks a server with the openai, aiohttp and httpx clients and prints what each got, one JSON line a request.

Usage: clients.py URL RUN UPSTREAM. UPSTREAM is a list of requests.json; RUN is a word in every X-Request-Id and X-Case.
"""

import asyncio
import concurrent.futures
import json
import pathlib
import sys

import aiohttp
import httpx
import httpx2
import openai

URL, RUN, UPSTREAM = sys.argv[1:]
REQUESTS = json.loads((pathlib.Path(__file__).parent / "requests.json").read_text(encoding="utf-8"))[UPSTREAM]
SHOWN = ("content-type", "content-length", "x-seen", "x-request-id", "retry-after", "server", "allow")


def show(client, name, **got):
    print(json.dumps({"name": f"{client}: {name}", **got}, sort_keys=True), flush=True)


def objects(kind, text):
    """The events of a stream as objects, and its other lines; or the one object of an answer."""
    if kind.startswith("application/json"):
        return [json.loads(text)]
    lines = [line for line in text.split("\n") if line]
    return [json.loads(line[6:]) if line.startswith("data: {") else line for line in lines]


def plain(request, client):
    """The arguments of a request for aiohttp and httpx."""
    content = request.get("text") or (json.dumps(request["body"]) if "body" in request else None)
    headers = {"Content-Type": "application/json", "X-Request-Id": f"{RUN}/{client}/{request['name']}", **request.get("headers", {})}
    return request.get("method", "POST"), URL + request.get("path", "/v1/chat/completions"), headers, content


def shown(status, headers, text):
    kept = {key: headers[key] for key in SHOWN if key in headers}
    if "x-request-id" in kept:
        kept["x-request-id"] = kept["x-request-id"].partition("/")[2]
    return {"status": status, "headers": kept, "objects": objects(headers.get("content-type", ""), text)}


async def with_aiohttp():
    async def one(session, request):
        method, url, headers, content = plain(request, "aiohttp")
        try:
            async with session.request(method, url, headers=headers, data=content) as answer:
                return shown(answer.status, answer.headers, await answer.text())
        except aiohttp.ClientError as problem:
            return {"problem": type(problem).__name__}

    async with aiohttp.ClientSession() as session:
        for request in REQUESTS:
            show("aiohttp", request["name"], **await one(session, request))
        together = await asyncio.gather(*(one(session, REQUESTS[i % 8]) for i in range(16)))
        show("aiohttp", "16 at once", all=together)
        if UPSTREAM == "captures":
            async with session.post(URL + "/v1/chat/completions", headers=left("aiohttp"), json={"stream": True}) as answer:
                await session.post(f"{URL}/gate/{RUN}-aiohttp?n=2")
                show("aiohttp", "leaves", objects=objects("", b"".join([await answer.content.readline() for _ in range(4)]).decode()))
                answer.close()


async def with_httpx():
    def one(answer):
        return shown(answer.status_code, answer.headers, answer.text)

    with httpx.Client(follow_redirects=True) as client:
        ports = set()
        for request in REQUESTS:
            method, url, headers, content = plain(request, "httpx")
            try:
                with client.stream(method, url, headers=headers, content=content) as answer:
                    ports.add(answer.extensions["network_stream"].get_extra_info("client_addr")[1])
                    answer.read()
                show("httpx", request["name"], **one(answer))
            except httpx.HTTPError as problem:
                show("httpx", request["name"], problem=type(problem).__name__)
        show("httpx", "connections used", number=len(ports))
    async with httpx.AsyncClient() as client:
        calls = [plain(REQUESTS[i % 8], "httpx") for i in range(16)]
        together = await asyncio.gather(*(client.request(method, url, headers=headers, content=content) for method, url, headers, content in calls))
        show("httpx", "16 at once", all=[one(answer) for answer in together])
        if UPSTREAM == "captures":
            async with client.stream("POST", URL + "/v1/chat/completions", headers=left("httpx"), json={"stream": True}) as answer:
                await client.post(f"{URL}/gate/{RUN}-httpx?n=2")
                lines = answer.aiter_lines()
                show("httpx", "leaves", objects=objects("", "\n".join([await anext(lines) for _ in range(3)])))


def left(client):
    """Headers of a request whose client leaves after the second event."""
    name = f"{RUN}-{client}"
    return {"X-Gate": name, "X-Case": name, "X-Request-Id": f"{RUN}/{client}/leaves"}


def openai_calls():
    """Each request of the list that openai has a method for, as (name, method, arguments)."""
    for request in REQUESTS:
        path, body = request.get("path", "/v1/chat/completions"), request.get("body")
        method = {"/v1/chat/completions": "chat", "/v1/completions": "completions", "/v1/embeddings": "embeddings"}.get(path)
        if method and body is not None:
            headers = {**request.get("headers", {}), "X-Request-Id": f"{RUN}/openai/{request['name']}"}
            extra = {key: value for key, value in body.items() if key not in ("messages", "prompt", "input", "stream", "model")}
            arguments = {key: body[key] for key in ("messages", "prompt", "input", "stream") if key in body}
            default = "smollm2" if UPSTREAM == "captures" else "fake-model"
            yield request["name"], method, {**arguments, "model": body.get("model", default), "extra_body": extra, "extra_headers": headers}


def method_of(client, name):
    return {"chat": client.chat.completions, "completions": client.completions, "embeddings": client.embeddings}[name]


def failed(problem):
    """What the openai client says of an error."""
    fields = {key: getattr(problem, key, None) for key in ("status_code", "code", "param", "type", "message", "body")}
    return {"problem": type(problem).__name__, **fields}


def dump(thing):
    return thing.model_dump(mode="json", exclude_unset=True)


def with_openai_sync(client):
    def one(method, arguments):
        events = []
        try:
            answer = method_of(client, method).create(**arguments)
            for event in answer if arguments.get("stream") else [answer]:
                events.append(dump(event))
        except (openai.APIError, httpx2.HTTPError) as problem:
            return {"objects": events, **failed(problem)}
        return {"objects": events}

    calls = list(openai_calls())
    for name, method, arguments in calls:
        show("openai", name, **one(method, arguments))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        show("openai", "16 threads", all=list(pool.map(lambda i: one(*calls[i % 8][1:]), range(16))))
    for name, method, arguments in calls[:3]:
        raw = method_of(client, method).with_raw_response.create(**arguments)
        show("openai", "raw " + name, **shown(raw.status_code, raw.headers, ""), events=[dump(event) for event in raw.parse()])
        with method_of(client, method).with_streaming_response.create(**arguments) as answer:
            show("openai", "lines of " + name, objects=objects("", "\n".join(answer.iter_lines())))


async def with_openai_async(client):
    async def one(method, arguments):
        events = []
        try:
            answer = await method_of(client, method).create(**arguments)
            if not arguments.get("stream"):
                return {"objects": [dump(answer)]}
            async for event in answer:
                events.append(dump(event))
        except (openai.APIError, httpx2.HTTPError) as problem:
            return {"objects": events, **failed(problem)}
        return {"objects": events}

    calls = list(openai_calls())
    for name, method, arguments in calls:
        show("async openai", name, **await one(method, arguments))
    show("async openai", "16 at once", all=await asyncio.gather(*(one(*calls[i % 8][1:]) for i in range(16))))
    if UPSTREAM == "captures":
        stream = await client.chat.completions.create(model="smollm2", messages=[], stream=True, extra_headers=left("openai"))
        await client.post(f"/../gate/{RUN}-openai?n=2", cast_to=object)
        show("async openai", "leaves", objects=[dump(await anext(stream)) for _ in range(2)])
        await stream.close()


async def main():
    settings = {"base_url": URL + "/v1", "api_key": "none", "max_retries": 0}
    await with_aiohttp()
    await with_httpx()
    with openai.OpenAI(**settings) as client:
        with_openai_sync(client)
    async with openai.AsyncOpenAI(**settings) as client:
        await with_openai_async(client)


asyncio.run(main())
