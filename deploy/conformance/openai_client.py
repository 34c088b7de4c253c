"""Asks the two-turn questions of a file with the openai client, several at a time, each reply put into the history as it came.

The server is named by OPENAI_BASE_URL. Usage: openai_client.py [--no-stream] --model NAME --max-tokens N --concurrency N FILE
"""

import argparse
import asyncio
import json

import openai

arguments = argparse.ArgumentParser()
arguments.add_argument("--no-stream", dest="stream", action="store_false")
arguments.add_argument("--model", required=True)
arguments.add_argument("--max-tokens", type=int, required=True)
arguments.add_argument("--concurrency", type=int, required=True)
arguments.add_argument("file")
settings = arguments.parse_args()


async def reply(client, messages):
    answer = await client.chat.completions.create(
        model=settings.model, messages=messages, max_tokens=settings.max_tokens, temperature=0, stream=settings.stream
    )
    if not settings.stream:
        return answer.choices[0].message.content
    return "".join([event.choices[0].delta.content or "" async for event in answer if event.choices])


async def converse(client, limit, turns):
    async with limit:
        messages = []
        for turn in turns:
            messages.append({"role": "user", "content": turn})
            messages.append({"role": "assistant", "content": await reply(client, messages)})


async def main():
    with open(settings.file, encoding="utf-8") as lines:
        questions = [json.loads(line)["turns"] for line in lines]
    limit = asyncio.Semaphore(settings.concurrency)
    async with openai.AsyncOpenAI(api_key="none", max_retries=0) as client:
        await asyncio.gather(*(converse(client, limit, turns) for turns in questions))


asyncio.run(main())
