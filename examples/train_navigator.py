"""Learning to navigate memory: rollouts, their reward, and GRPO on them.

python examples/train_navigator.py                   offline, with a tiny model made on
the spot python examples/train_navigator.py --model Qwen/Qwen3-0.6B --steps 200
--learning-rate 1e-6

Training needs the extra: pip install ".[train]". Without it only rollouts are shown.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from langmem_graph import Memory
from langmem_graph.navigation import (
    NavigationEnv,
    QuestionItem,
    Trajectory,
    navigation_metrics,
    navigation_tools,
    read_trajectories,
    trajectory,
    trl_environment,
    trl_navigation,
    trl_reward,
    trl_rows,
    write_trajectories,
)

SAID = {
    "ana": [
        "I always take an aisle seat.",
        "My sister Eva keeps bees.",
        "I live in Porto.",
    ],
    "ben": [
        "I always take a window seat.",
        "I am allergic to nuts.",
        "I live in Oslo.",
    ],
}
ASKED = [  # user, question, what to look for, answer: without a look it cannot be known
    ("ana", "Which seat do I take?", "seat", "aisle"),
    ("ben", "Which seat do I take?", "seat", "window"),
    ("ana", "Where do I live?", "live", "Porto"),
    ("ben", "Where do I live?", "live", "Oslo"),
]
ITEMS = [
    QuestionItem(user_id=user, question=question, answers=[answer])
    for user, question, _, answer in ASKED
]
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "initializer_range": 0.1,  # so narrow a model learns slowly from the usual 0.02
}


def fill(memory: Memory) -> None:
    """What the two users once said."""
    for user, texts in SAID.items():
        said = [{"role": "user", "content": text, "at": "2025-03-04"} for text in texts]
        memory.user(user).add(said, session_id="earlier")


def demonstrations(memory: Memory) -> list[Trajectory]:
    """Every question twice: looked up and answered, and not looked up."""
    env, shown = NavigationEnv(memory), []
    for item, (_, _, query, answer) in zip(ITEMS, ASKED, strict=True):
        look = {"name": "search_conversation", "arguments": {"query": query}}
        for actions in ([look, {"answer": answer}], [{"answer": "I do not know."}]):
            env.reset(item)
            for action in actions:
                env.step(action)
            shown.append(trajectory(env.navigation, item))
    return shown


def tiny_tokenizer(texts: Sequence[str]) -> Any:
    """A tokenizer made of these texts, with the chat template of Qwen3; nothing is
    downloaded.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen3_chat_template

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    signs = ["<pad>", "<|im_start|>", "<|im_end|>"]
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=signs,
        initial_alphabet=letters,
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    ends = {"pad_token": signs[0], "eos_token": signs[2]}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **ends)
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    tokenizer.chat_template = qwen3_chat_template
    return tokenizer


def tiny_model(shown: Sequence[Trajectory], steps: int, out: str) -> str:
    """A small random model that has learned from the exported rollouts how to call
    tools.
    """
    from datasets import Dataset
    from transformers import Qwen3Config, Qwen3ForCausalLM, set_seed
    from trl import SFTConfig, SFTTrainer

    set_seed(0)
    tools = json.dumps(navigation_tools())
    tokenizer = tiny_tokenizer([tools, *(json.dumps(one.messages) for one in shown)])
    ids = {
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    model = Qwen3ForCausalLM(
        Qwen3Config(vocab_size=len(tokenizer), bos_token_id=None, **TINY, **ids)
    )
    options = SFTConfig(
        output_dir=f"{out}/tiny",
        max_steps=steps,
        learning_rate=1e-2,
        warmup_steps=5,
        per_device_train_batch_size=len(shown),
        assistant_only_loss=True,
        max_length=None,
        gradient_checkpointing=False,
        **_usual(),
    )
    rows = Dataset.from_list(
        [{"messages": one.messages, "tools": tools} for one in shown]
    )
    trainer = SFTTrainer(
        model, args=options, train_dataset=rows, processing_class=tokenizer
    )
    trainer.train()
    tokenizer.save_pretrained(f"{out}/tiny")  # with the template as it was
    model.save_pretrained(f"{out}/tiny")
    return f"{out}/tiny"


def train(
    model: str, memory: Memory, out: str, *, steps: int, learning_rate: float
) -> tuple[Any, list[Any]]:
    """GRPO on the questions; the trainer, and every rollout as item and navigation."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    options = GRPOConfig(
        output_dir=out,
        max_steps=steps,
        learning_rate=learning_rate,
        per_device_train_batch_size=8,
        num_generations=4,  # NapMem's group size
        max_tool_calling_iterations=4,  # and its turns with tools
        max_completion_length=1024,
        beta=0.001,
        scale_rewards=False,  # the advantage is the reward less the group's mean
        **_usual(),
    )
    rollouts: list[Any] = []
    reward = trl_reward()

    def watched(
        prompts: Any, completions: Any, environments: Any, **rest: Any
    ) -> list[float]:
        walks = zip(environments, prompts, completions, strict=True)
        rollouts.extend(trl_navigation(*walk) for walk in walks)
        return reward(prompts, completions, environments, **rest)

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # environments are new there
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=watched,
        args=options,
        train_dataset=Dataset.from_list(trl_rows(ITEMS)),
        environment_factory=trl_environment(memory),
    )
    trainer.train()
    return trainer, rollouts


def _usual() -> dict[str, Any]:
    """What both trainers are told."""
    import torch

    quiet = {
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 5,
    }
    return {**quiet, "bf16": torch.cuda.is_available()}


def main() -> None:
    """Show the rollouts, then train."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--model", help="a model that can call tools; without it a tiny random one"
    )
    options.add_argument("--steps", type=int, default=30)
    options.add_argument(
        "--warm-up", type=int, default=80, help="steps, for the tiny model"
    )
    options.add_argument("--learning-rate", type=float, default=3e-4)
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory() as out,
        Memory(f"{out}/memory", embeddings="hash") as memory,
    ):
        fill(memory)
        path = Path(out) / "walks.jsonl"
        write_trajectories(path, demonstrations(memory))
        shown = list(read_trajectories(path))
        for one in shown:
            steps = " → ".join(use.name for use in one.metadata.tool_calls) or "no look"
            print(
                f"{one.reward:+.1f}  {one.metadata.question} {steps}: "
                f"{one.metadata.answer}"
            )
        try:
            import datasets  # noqa: F401
            import trl  # noqa: F401
        except ImportError:
            print('To train on them: pip install "langmem-graph[train]"')
            return
        learn(chosen, memory, shown, out)


def learn(chosen: Any, memory: Memory, shown: Sequence[Trajectory], out: str) -> None:
    """Train as chosen, and say what has changed."""
    model = chosen.model or tiny_model(shown, chosen.warm_up, out)
    _, rollouts = train(
        model, memory, out, steps=chosen.steps, learning_rate=chosen.learning_rate
    )
    part = max(8, len(rollouts) // 5 // 8 * 8)
    for name, some in (("first", rollouts[:part]), ("last", rollouts[-part:])):
        items, walks = zip(*some, strict=True)
        figures = navigation_metrics(walks, items)
        reward = fmean(trajectory(walk, item).reward or 0.0 for item, walk in some)
        print(
            f"{name} {part} walks: reward {reward:+.2f}, {figures.tool_calls:.2f} "
            "tool calls"
        )


if __name__ == "__main__":
    main()
