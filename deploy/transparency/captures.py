"""Answers of a real vLLM, as files of captures, with and without what stream_options asks for."""

import collections
import functools
import json
import os
import pathlib

FOLDER = pathlib.Path(os.environ["SPECTAP_CAPTURES"])

# Answers to one request that was sent three times: asked for nothing, for usage, for usage on every event.
FAMILIES = {
    "chat": ("nd-chat-stream-nousage", "nd-chat-stream-usage", "nd-chat-stream-cont"),
    "completions": ("nd-comp-stream-nousage", "nd-comp-stream-usage", "nd-comp-stream-cont"),
}

Answer = collections.namedtuple("Answer", "status stream parts")


def answer(name, options):
    """The answer of a capture, each event a part of its own. What the server would not have sent for these stream_options is taken out."""
    usage = bool(options.get("include_usage"))
    level = usage + (usage and bool(options.get("continuous_usage_stats")))
    if name in FAMILIES:
        return read(FAMILIES[name][level])
    found = read(name)
    if not found.stream or b'"choices"' not in found.parts[0]:
        return found  # another API's
    return Answer(found.status, True, asked(found.parts, level))


@functools.cache
def read(name):
    head, _, body = (FOLDER / name / "response.raw").read_bytes().partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" in head.lower():
        body = dechunk(body)
    if b"text/event-stream" not in head:
        return Answer(status, False, [body])
    return Answer(status, True, [part + b"\n\n" for part in body.split(b"\n\n") if part])


def dechunk(rest):
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body


def asked(parts, level):
    """The events as vLLM sends them when asked for nothing (0), for usage (1), for usage on every event (2).

    Without a usage event, the finish events carry the system_fingerprint that stands in it.
    """
    events = [part[len("data: ") :].strip() for part in parts]
    events = [json.loads(event) if event.startswith(b"{") else event for event in events]
    last = next((e for e in events if isinstance(e, dict) and e.get("choices") == []), None)
    generated = collections.Counter()
    out = []
    for event in events:
        if not isinstance(event, dict) or "choices" not in event:
            out.append(event)
        elif event["choices"]:
            out.append(with_usage(event, last, generated, level == 2 and last is not None))
            if level == 0 and last and event["choices"][0]["finish_reason"]:
                out[-1]["system_fingerprint"] = last["system_fingerprint"]
        elif level > 0:
            out.append(event)
    return [b"data: " + (e if isinstance(e, bytes) else json.dumps(e, ensure_ascii=False, separators=(",", ":")).encode()) + b"\n\n" for e in out]


def with_usage(event, last, generated, wanted):
    """The event with or without usage, which stands behind the choices. Where no count is captured, there are logprobs, one a token."""
    own = event.get("usage")
    if wanted and own is None:
        prompt, index = last["usage"]["prompt_tokens"], event["choices"][0]["index"]
        logprobs = event["choices"][0].get("logprobs") or {}
        generated[index] += len(logprobs.get("content") or logprobs.get("tokens") or [])
        own = {"prompt_tokens": prompt, "total_tokens": prompt + generated[index], "completion_tokens": generated[index]}
        if "delta" in event["choices"][0]:
            own["completion_tokens_details"] = None
    out = {}
    for key, value in event.items():
        if key != "usage":
            out[key] = value
        if key == "choices" and wanted:
            out["usage"] = own
    return out
