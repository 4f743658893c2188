"""Options of what a run is carried by: the engines that sample (`rollout.vllm`), and the one that learns."""

from dataclasses import dataclass


@dataclass(frozen=True)
class VLLMConfig:
    """Engines of rollout.engine vllm and vllm_server; what they get from elsewhere: model.max_length, the policy."""

    # Servers that run already, as http://host:8000; they are left running. Empty: `servers` are started on this
    # machine, and stopped at the end. They must be vLLM 0.32 with VLLM_SERVER_DEV_MODE=1, --enable-scale-out
    # and the arguments in serl.generate.vllm.launch.
    urls: tuple[str, ...] = ()
    servers: int = 1
    dtype: str | None = None  # float32 | bfloat16, of weights, keys and values; null: as model.dtype
    kv_cache_gib: float = 4.0  # memory for keys and values of an engine
    max_sequences: int = 256  # decoded at once; more wait
    eager: bool | None = None  # without compilation and CUDA graphs; null: on a CPU, where compiling takes minutes
    threads: int | None = None  # of an engine on a CPU; null: as OMP_NUM_THREADS says
    arguments: tuple[str, ...] = ()  # more of vLLM's own, as ("--tensor-parallel-size", "2")
    startup_timeout_s: float = 600.0
    request_timeout_s: float = 600.0  # until a server that says nothing on a request counts as gone
    # Where weights lie for an engine to read, a new folder in this one; null: the system's. Servers on other machines
    # need one that they share.
    folder: str | None = None
    # Nats by which log-probs of an engine may differ from the trainer's (serl.generate.probe); about 0.2 for bfloat16.
    tolerance: float = 1e-3
    sleep: bool = False  # during an update the engine gives its memory on the GPU back (vLLM's sleep mode)


@dataclass(frozen=True)
class EngineConfig:
    """What carries the optimizer of `serl train` (`serl sft` is of kind torch), and how long processes wait."""

    kind: str = "torch"  # torch (each process has all weights) | deepspeed (processes share what `zero` says)
    # deepspeed: what each process holds only its part of: 1 optimizer state | 2 and gradients | 3 and weights
    # (serl.train.deepspeed).
    zero: int = 0
    # deepspeed: what waits in the memory of the CPU: none | optimizer (state and master weights) | parameters (and the
    # weights; needs zero 3).
    offload: str = "none"
    # Seconds until a rank that waits for another gives up. Rank 0 makes what is kept on the disk (gold results,
    # checkpoints) while the others wait.
    timeout_s: float = 1800.0
