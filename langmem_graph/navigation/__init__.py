"""Learning to navigate memory (NapMem 3.3, 3.4): environment, reward, metrics, trajectories.

A policy answers questions about a user by reading the layers of their memory with five tools,
within a tool budget. How to use it, and how to train a policy: docs/navigation.md.

- `rollout`: one rollout: turns, tool calls, the tool budget, the answer
- `actions`, `tools`, `schemas`: parsed actions, the five tools, questions and results
- `environment`: `NavigationEnv` with `reset` and `step`, for any trainer
- `reward`: `Rubric`, the reward of a rollout (the paper's `napmem_reward`), and the metrics
- `navigator`: `run_navigator`, a chat model as the policy
- `trajectories`: rollouts as lines of JSON
- `trl`: TRL's trainer
"""

from langmem_graph.navigation.environment import NavigationEnv
from langmem_graph.navigation.navigation_items import (
    Finish,
    Layer,
    Navigation,
    QuestionItem,
    ToolUse,
)
from langmem_graph.navigation.navigator import arun_navigator, run_navigator
from langmem_graph.navigation.parse_actions import MAX_CALLS
from langmem_graph.navigation.reading_tools import navigation_tools
from langmem_graph.navigation.reward import (
    Judge,
    NavigationMetrics,
    Rubric,
    Score,
    best_f1,
    evidence_shown,
    f1_judge,
    napmem_reward,
    navigation_metrics,
    token_f1,
)
from langmem_graph.navigation.trajectories import (
    Trajectory,
    TrajectoryMetadata,
    read_trajectories,
    trajectory,
    write_trajectories,
)
from langmem_graph.navigation.trl import (
    TrlEnvironment,
    trl_environment,
    trl_navigation,
    trl_reward,
    trl_rows,
)

__all__ = [
    "MAX_CALLS",
    "Finish",
    "Judge",
    "Layer",
    "Navigation",
    "NavigationEnv",
    "NavigationMetrics",
    "QuestionItem",
    "Rubric",
    "Score",
    "ToolUse",
    "Trajectory",
    "TrajectoryMetadata",
    "TrlEnvironment",
    "arun_navigator",
    "best_f1",
    "evidence_shown",
    "f1_judge",
    "napmem_reward",
    "navigation_metrics",
    "navigation_tools",
    "read_trajectories",
    "run_navigator",
    "token_f1",
    "trajectory",
    "trl_environment",
    "trl_navigation",
    "trl_reward",
    "trl_rows",
    "write_trajectories",
]
