"""Opcodes of the XLOG resource manager (`catalog/pg_control.h`)."""

from __future__ import annotations

OPCODE = 0xF0
CHECKPOINT_SHUTDOWN = 0x00
CHECKPOINT_ONLINE = 0x10
SWITCH = 0x40
PARAMETER_CHANGE = 0x60
FPW_CHANGE = 0x80
END_OF_RECOVERY = 0x90
FPI_FOR_HINT = 0xA0
FPI = 0xB0
OVERWRITE_CONTRECORD = 0xD0
