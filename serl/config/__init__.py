"""Typed configuration of a run."""

from serl.config.guards import GuardsConfig
from serl.config.hindsight import WordingConfig
from serl.config.load import load_config, to_dict, validate
from serl.config.options import (
    AgentConfig,
    Config,
    DataConfig,
    EngineConfig,
    EvalConfig,
    GroundingOptions,
    HindsightConfig,
    LoraConfig,
    ModelConfig,
    RolloutConfig,
    SftConfig,
    SqlConfig,
    TeachConfig,
    TeacherConfig,
    TrackingConfig,
    TrainConfig,
    VLLMConfig,
)
from serl.config.reward import RewardConfig

__all__ = ["AgentConfig", "Config", "DataConfig", "EngineConfig", "EvalConfig", "GroundingOptions", "GuardsConfig",
           "HindsightConfig",
           "LoraConfig", "ModelConfig", "RewardConfig", "RolloutConfig", "SftConfig", "SqlConfig", "TeachConfig",
           "TeacherConfig", "TrackingConfig", "TrainConfig", "VLLMConfig", "WordingConfig", "load_config", "to_dict",
           "validate"]
