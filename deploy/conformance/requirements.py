"""Prints what a wheel requires, as requirements for pip, with torch's plain build in place of the one for CPUs.

Usage: requirements.py WHEEL
"""

import email
import sys
import zipfile

from packaging.requirements import Requirement

ADDED = ("gguf", "accelerate", "pandas")  # to read the model's weights, and vllm bench's data sets

wheel = zipfile.ZipFile(sys.argv[1])
(metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
for line in email.message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist"):
    requirement = Requirement(line)
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        continue
    requirement.marker = None
    if requirement.name == "torchcodec":  # decodes video, and has no build without the CPU's torch
        continue
    if requirement.name == "torch":
        (exact,) = requirement.specifier
        print("torch==" + exact.version.removesuffix("+cpu"))
        continue
    print(requirement)
print("\n".join(ADDED))
