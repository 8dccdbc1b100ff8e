"""Model runtimes behind one small protocol: sklearn, onnx, synthetic, and `process`, which runs any in a child."""
