"""The simulated engine: a server that stands in for vLLM or SGLang where there is no GPU.

`python -m engines.sim vllm FLAGS` speaks vLLM's dialect, `python -m engines.sim sglang FLAGS`
SGLang's: the same flags, start-up log, pages and streaming API. Behind them runs a model of the
engine (schedulers, KV caches, the time of a step), which `engines.sim.offline` also runs without
sockets. Everything it says is marked as simulated. Standard library only.
"""
