"""Importers of models: ONNX files and PyTorch programs to graphs; extras of the installation."""
