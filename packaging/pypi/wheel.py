"""Writes the wheel of the command: wheel.py VERSION TAG PROGRAM README LICENCE... FOLDER

A wheel is a zip file with metadata (https://packaging.python.org/en/latest/specifications/binary-distribution-format/). This one
has a program and no Python code. The same files give the same bytes.
"""

import base64
import hashlib
import os
import sys
import zipfile

version, tag, program, readme, *licences, folder = sys.argv[1:]

TIME = (2020, 1, 1, 0, 0, 0)
info = f"looptree-{version}.dist-info"
record = []


def add(archive, name, content, mode=0o644):
    entry = zipfile.ZipInfo(name, TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    archive.writestr(entry, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(content)}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


metadata = f"""Metadata-Version: 2.4
Name: looptree
Version: {version}
Summary: The command looptree: a coding agent in a terminal and in scripts.
License-Expression: MIT OR Apache-2.0
{"".join(f"License-File: {os.path.basename(path)}" + chr(10) for path in licences)}Project-URL: Homepage, https://github.com/looptree/looptree
Keywords: agent,llm,coding-agent,cli
Requires-Python: >=3.8
Description-Content-Type: text/markdown

"""
wheel = f"Wheel-Version: 1.0\nGenerator: looptree packaging/pypi/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"

name = f"looptree-{version}-{tag}.whl"
with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
    add(archive, f"looptree-{version}.data/scripts/{os.path.basename(program)}", read(program), 0o755)
    add(archive, f"{info}/METADATA", metadata.encode() + read(readme))
    add(archive, f"{info}/WHEEL", wheel.encode())
    for path in licences:
        add(archive, f"{info}/licenses/{os.path.basename(path)}", read(path))
    record.append(f"{info}/RECORD,,")
    entry = zipfile.ZipInfo(f"{info}/RECORD", TIME)
    entry.external_attr = 0o100644 << 16
    archive.writestr(entry, "\n".join(record) + "\n")
print(name)
