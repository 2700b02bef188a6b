"""Arithmetic on whole columns of numbers, in native code."""

from ansorpy.columns.machine import OPERATIONS, ROWS, Instruction, instruction, run

__all__ = ["OPERATIONS", "ROWS", "Instruction", "instruction", "run"]
