"""The version, alone in a module so that the build and the snapshot properties read the same one."""

__version__ = "0.1.0"
