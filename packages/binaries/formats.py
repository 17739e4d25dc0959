"""Reads the three kinds of binaries, of Linux, Windows and macOS, into what `check` compares; what only one kind has is
a problem here at once."""

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass, field

import lief

GLIBC = re.compile(r"(libc|libm|libdl|libpthread|librt|libutil|ld-linux-[\w-]+)\.so\.\d+")
MUSL = re.compile(r"libc\.so")
# Parts of Windows itself, as of Windows 10, which is what Rust's library needs.
WINDOWS = re.compile(r"(advapi32|bcrypt|bcryptprimitives|crypt32|kernel32|msvcrt|ntdll|secur32|shell32|userenv|ws2_32)\.dll")
WINDOWS_API = re.compile(r"api-ms-win-core-synch-l1-2-0\.dll")
MACOS = re.compile(r"/usr/lib/lib(System\.B|iconv\.2|objc\.A)\.dylib|/System/Library/Frameworks/(Security|CoreFoundation)"
                   r"\.framework/Versions/A/(Security|CoreFoundation)")


@dataclass
class Binary:
    """What a file has: the names that it exports; libraries of ours and of others that it needs, without the system's;
    the newest version of a C library or system that it asks for; and what names its debug information."""

    exports: set
    ours: set
    foreign: set
    newest: str = "0"
    debug_link: bytes = b""
    problems: list = field(default_factory=list)


def number(version):
    return tuple(int(part) for part in version.split("."))


def read(file, system):
    return {"windows": of_windows, "macos": of_macos}.get(system, of_linux)(file, system)


def is_ours(library):
    return re.fullmatch(r"(@rpath/)?(lib)?litepack\.(so|dylib)", library)


def readelf(file, *options):
    command = ["readelf", "--wide", *options, str(file)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def of_linux(file, system):
    dynamic, segments, sections = (readelf(file, f"--{what}") for what in ("dynamic", "segments", "sections"))
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    ours = {library for library in needed if is_ours(library)}
    allowed = MUSL if system == "linux-musl" else GLIBC
    versions = re.findall(r"Name: GLIBC_([\d.]+)", readelf(file, "--version-info"))
    symbols = readelf(file, "--dyn-syms")
    defined = re.findall(r"(?:FUNC|OBJECT|NOTYPE|TLS|IFUNC)\s+(?:GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+\d+ ([^\s@]+)", symbols)
    found = Binary(
        exports=set(defined),
        ours=ours,
        foreign={library for library in needed - ours if not allowed.fullmatch(library)},
        newest=max(versions, key=number, default="0"),
    )
    link = re.search(r"\.gnu_debuglink\s+\w+\s+\w+ (\w+) (\w+)", sections)
    if link:
        offset, size = (int(value, 16) for value in link.groups())
        found.debug_link = file.read_bytes()[offset : offset + size]

    problem = found.problems.append
    if re.search(r"\.(symtab|debug_info|debug_line)\b", sections):
        problem("is not stripped")
    if "TEXTREL" in dynamic:
        problem("changes its code when it is loaded")
    if not re.search(r"GNU_STACK.*RW ", segments):
        problem("has a stack that can be executed")
    if "GNU_RELRO" not in segments:
        problem("leaves its table of functions writable")
    runpath = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
    if runpath != (["$ORIGIN"] if ours else []):
        problem(f"looks for libraries in {runpath}")
    if "STATIC_TLS" in dynamic and file.suffix == ".so":
        problem("needs room for thread-local variables in the host")
    if file.name == "liblitepack.so" and "NODELETE" not in dynamic:
        problem("does not stay loaded")
    return found


def of_windows(file, _system):
    binary = lief.PE.parse(str(file))
    libraries = {library.name.lower() for library in binary.imports}
    found = Binary(
        exports={function.name for function in binary.exported_functions},
        ours=set(),
        foreign={name for name in libraries if not WINDOWS.fullmatch(name) and not WINDOWS_API.fullmatch(name)},
    )
    content = file.read_bytes()
    # Names that are longer than eight letters are in a table behind that of symbols.
    names = binary.header.pointerto_symbol_table + 18 * binary.header.numberof_symbols
    stripped = True
    for section in binary.sections:
        name = section.name
        if name.startswith("/"):
            name = content[names + int(name[1:]) :].partition(b"\0")[0].decode()
        if name == ".gnu_debuglink":
            # The checksum follows the name at the next multiple of four, and the rest is padding.
            link = bytes(section.content)
            found.debug_link = link[: len(link.partition(b"\0")[0]) // 4 * 4 + 8]
        stripped = stripped and not name.startswith(".debug")
    if not stripped:
        found.problems.append("is not stripped")
    flags = lief.PE.OptionalHeader.DLL_CHARACTERISTICS
    for flag in (flags.DYNAMIC_BASE, flags.NX_COMPAT, flags.HIGH_ENTROPY_VA):
        if not binary.optional_header.has(flag):
            found.problems.append(f"does not say {flag}")
    return found


def of_macos(file, _system):
    # It is freed with this one.
    universal = lief.MachO.parse(str(file))
    (binary,) = universal
    # A library's own name is among them.
    libraries = {library.name for library in binary.libraries} - {f"@rpath/{file.name}"}
    ours = {library for library in libraries if is_ours(library)}
    # A program has one more, which the system looks for.
    exports = {symbol.name.removeprefix("_") for symbol in binary.exported_symbols} - {"_mh_execute_header", "main"}
    minimum = binary.build_version.minos if binary.has_build_version else binary.version_min.version
    found = Binary(
        exports=exports,
        ours={library.rpartition("/")[2] for library in ours},
        foreign={library for library in libraries - ours if not MACOS.fullmatch(library)},
        newest=".".join(map(str, minimum[:2])),
    )
    problem = found.problems.append
    local = [symbol for symbol in binary.symbols if symbol.type != lief.MachO.Symbol.TYPE.UNDEFINED]
    if len(local) > len(binary.exported_symbols) + 2:
        problem("is not stripped")
    rpaths = [rpath.path for rpath in binary.rpaths]
    if rpaths != (["@loader_path"] if ours else []):
        problem(f"looks for libraries in {rpaths}")
    if binary.header.cpu_type == lief.MachO.Header.CPU_TYPE.ARM64 and not is_signed(file, binary):
        problem("has no signature, or that of another file")
    return found


def is_signed(file, binary):
    """Whether the hashes of its pages are those in its signature, of which an ad-hoc one has nothing else."""
    if not binary.has_code_signature:
        return False
    content = file.read_bytes()
    start = binary.code_signature.data_offset
    signature = content[start : start + binary.code_signature.data_size]

    def word(place):
        return int.from_bytes(signature[place : place + 4], "big")

    directories = [word(16 + 8 * index) for index in range(word(8)) if word(12 + 8 * index) == 0]
    if word(0) != 0xFADE0CC0 or len(directories) != 1:
        return False
    place = directories[0]
    hashes, pages, end = place + word(place + 16), word(place + 28), word(place + 32)
    size, kind, page = signature[place + 36], signature[place + 37], 1 << signature[place + 39]
    if word(place) != 0xFADE0C02 or (size, kind, end) != (32, 2, start) or pages != -(-end // page):
        return False
    return all(
        signature[hashes + 32 * index : hashes + 32 * (index + 1)]
        == hashlib.sha256(content[page * index : min(page * (index + 1), end)]).digest()
        for index in range(pages)
    )
