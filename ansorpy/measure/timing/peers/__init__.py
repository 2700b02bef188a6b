"""Installed libraries as contestants of a race: PyTorch and ONNX Runtime compute the same Dag."""
