# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the wheel, by PEP 517 and without any other package. It has libsonar.so.0 inside if SONAR_LIBRARY names it or
the release was built in this checkout; else the library is the system's (libsonar0)."""
import base64
import hashlib
import os
import pathlib
import re
import sysconfig
import zipfile

here = pathlib.Path(__file__).resolve().parent


def _field(name):
    return re.search(rf'^{name} = "(.*)"$', (here / "pyproject.toml").read_text(), re.M)[1]


def _metadata():
    text = (here / "pyproject.toml").read_text()
    extras = re.findall(r'"(\w+)"', re.search(r"^all = \[(.*)\]$", text, re.M)[1])
    lines = ["Metadata-Version: 2.1", f"Name: {_field('name')}", f"Version: {_field('version')}",
             f"Summary: {_field('description')}", "License: GPL-3.0-or-later",
             f"Requires-Python: {_field('requires-python')}", "Requires-Dist: numpy", "Provides-Extra: all",
             *(f"Requires-Dist: {name}; extra == 'all'" for name in extras)]
    return "\n".join(lines) + "\n"


def _library():
    named = os.environ.get("SONAR_LIBRARY")
    path = pathlib.Path(named) if named else here / "../../build/release/lib/libsonar.so.0"
    if named and not path.exists():
        raise FileNotFoundError(f"SONAR_LIBRARY: {named} is not there")
    return path if path.exists() else None


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    library = _library()
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform()) if library else "any"
    stem = f"{_field('name')}-{_field('version')}"
    files = {f"sonar/{file.name}": file.read_bytes() for file in sorted((here / "sonar").glob("*.py"))}
    if library:
        files["sonar/libsonar.so.0"] = library.read_bytes()
    info = f"{stem}.dist-info"
    for text in ("LICENSE", "COPYING.exception"):
        if (here / "../.." / text).exists():
            files[f"{info}/{text}"] = (here / "../.." / text).read_bytes()
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: sonard\nRoot-Is-Purelib: {str(not library).lower()}\n"
                              f"Tag: py3-none-{platform}\n").encode()
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    name = f"{stem}-py3-none-{platform}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    return name


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
