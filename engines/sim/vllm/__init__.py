"""vLLM's outside: flags, log, pages."""
