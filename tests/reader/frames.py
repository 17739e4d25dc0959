"""Frames of zstd, by the system's libzstd: zstd is a format of others, and has readers of its own."""

import ctypes
import ctypes.util

from notes import check

zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
zstd.ZSTD_createDCtx.restype = ctypes.c_void_p
for name in ("DCtx_setParameter", "DCtx_loadDictionary", "DCtx_refPrefix", "decompressDCtx", "findFrameCompressedSize"):
    getattr(zstd, "ZSTD_" + name).restype = ctypes.c_size_t
FORMAT, MAGICLESS = 1000, 1


def decoded(frame, most, dictionary=None, prefix=None, magic=False):
    """What a frame decodes to, of at most so many bytes."""
    context = ctypes.c_void_p(zstd.ZSTD_createDCtx())
    try:
        if not magic:
            done(zstd.ZSTD_DCtx_setParameter(context, FORMAT, MAGICLESS))
        if prefix is not None:
            done(zstd.ZSTD_DCtx_refPrefix(context, prefix, ctypes.c_size_t(len(prefix))))
        elif dictionary is not None:
            done(zstd.ZSTD_DCtx_loadDictionary(context, dictionary, ctypes.c_size_t(len(dictionary))))
        out = ctypes.create_string_buffer(max(most, 1))
        length = zstd.ZSTD_decompressDCtx(context, out, ctypes.c_size_t(most), frame, ctypes.c_size_t(len(frame)))
        return out.raw[: done(length)]
    finally:
        zstd.ZSTD_freeDCtx(context)


def done(code):
    check(not zstd.ZSTD_isError(ctypes.c_size_t(code)), "a frame of zstd does not decode")
    return code
