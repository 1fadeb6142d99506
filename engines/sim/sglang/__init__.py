"""SGLang's outside: flags, log, pages."""
