"""uuid: 16 bytes, printed as a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 and sent as they are. In Arrow a string of that."""

from __future__ import annotations

from tailrace.types.hexadecimal import hex_groups

UUID = hex_groups("-", (4, 2, 2, 2, 6))
