"""What all rooms use and that knows nothing of SVMs: messages, progress bars, threads, stopping, whole files."""
