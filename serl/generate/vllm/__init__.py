"""Sampling by vLLM, in process or from servers, with the trainer's weights.

    generator   the interface of every sampler, over one engine or several; gives them weights and verifies them
    action      what an engine is asked for one action (where it ends: `serl.generate.stopping`)
    pool, loop  several engines, and what to do when one dies; requests that go on in the background
    endpoint    one engine, wherever it runs: `inprocess`, or `client` of a `server` that we start or that runs already
    weights     the trainer's weights on their way; `worker`, `fingerprint`: what an engine does with them
    build       the engines that a config asks for, by `launch`'s arguments

Written for vLLM 0.32: requests of token ids, weight transfer in four phases, weight versions in each answer. What
carries the weights is a backend of ours, a file: it works on every device, and between machines that share a folder.
"""
