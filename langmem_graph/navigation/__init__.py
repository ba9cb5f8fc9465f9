"""Learning to navigate memory (NapMem 3.3, 3.4): environment, reward, metrics,
trajectories.

A policy answers questions about a user by reading the layers of their memory with five
tools, within a tool budget. How to use it, and how to train a policy:
docs/navigation.md.
"""

from langmem_graph.navigation.actions import (
    Navigation,
    QuestionItem,
    ToolUse,
    navigation_tools,
)
from langmem_graph.navigation.reward import (
    Judge,
    Rubric,
    Score,
    Trajectory,
    f1_judge,
    navigation_metrics,
    read_trajectories,
    trajectory,
    write_trajectories,
)
from langmem_graph.navigation.rollouts import (
    NavigationEnv,
    arun_navigator,
    run_navigator,
)
from langmem_graph.navigation.trl import (
    trl_environment,
    trl_navigation,
    trl_reward,
    trl_rows,
)

__all__ = [
    "Judge",
    "Navigation",
    "NavigationEnv",
    "QuestionItem",
    "Rubric",
    "Score",
    "ToolUse",
    "Trajectory",
    "arun_navigator",
    "f1_judge",
    "navigation_metrics",
    "navigation_tools",
    "read_trajectories",
    "run_navigator",
    "trajectory",
    "trl_environment",
    "trl_navigation",
    "trl_reward",
    "trl_rows",
    "write_trajectories",
]
