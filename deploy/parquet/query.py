"""Runs the SQL queries of a JSON list on stdin in DuckDB, in the working folder,
and prints the rows of each as JSON: times as ISO texts, bytes as text."""

import json
import sys

import duckdb


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    return value.isoformat()


connection = duckdb.connect()
connection.execute("SET TimeZone = 'Asia/Tokyo'")  # the answers are in UTC whatever the session is in
answers = [connection.execute(query).fetchall() for query in json.load(sys.stdin)]
json.dump(answers, sys.stdout, default=plain)
