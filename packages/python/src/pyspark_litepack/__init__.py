"""By this name Spark finds ``format("litepack")``, without a call that registers it."""

from litepack.spark import Litepack as DefaultSource

__all__ = ["DefaultSource"]
